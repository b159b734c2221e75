#pragma once

/// Tables as one array of 64-bit words, as walks and kernels read them. All references are word offsets from the start
/// of the array.
///
///   image:  phases, offset of each phase, offset of the cuts
///   phase:  passes, longest_first, offset of the head table of h = 0 … H-1
///   head:   words of HeadWord, then the offset of each pass
///   pass:   words of PassWord, then terms of kTermWords each
///   cuts:   words of CutsWord, then cuts of kCutWords each; then of each range of keys how many lower and upper bounds
///           it has, and these
namespace weft::walk {

/// So many there are always, with zeros behind the last: a kernel may load them before it knows how many are in use.
enum { kLeastWords = 128 };
enum HeadWord { kCell, kLcm, kPeriod, kTilesPerCell, kClassBits, kRowBits, kRowBitsAt, kCellsAt, kPassesAt };
enum PassWord { kTerms, kOut, kFactor, kWritesLse, kLseSlot, kTermsAt };  ///< factor: bits of a double
enum TermWord {
  kBranch,
  kSegment,
  kRate,
  kResidue,
  kNeed,
  kMiss,
  kLoCount,
  kLoAt,
  kHiCount,
  kHiAt,
  kRowCount,
  kRowAt,
  kFilterCount,
  kFilterAt,
  kWhole,
  kPairCount,  ///< conditions on pairs …
  kPairAt,     ///< … words of PairWord each
  kTermWords,
};
enum PairWord { kPairNumber, kPairNegated, kPairWords };
/// In the order of ir::Bound::Kind.
enum BoundKind { kBoundConstant, kBoundRow, kBoundSegment, kBoundInput, kBoundPart, kBoundForm };
enum BoundWord { kBoundKind, kBoundA, kBoundB, kBoundAdd, kBoundBelow, kBoundWords };  ///< `below`: row conditions
/// How keys of a row are cut into chunks, of blocks of so many keys: chunks.h.
enum CutsWord { kCutCount, kCutStep, kCutRanges, kCutsAt };
enum CutWord { kCutRows, kCutKeys, kCutMost, kCutWords };
enum FilterWord { kFilterSegment, kFilterRate, kFilterResidue, kFilterNegated, kFilterWords };
enum CellWord { kCellTiles, kCellClassesAt };                          ///< then the offset of each class
enum ClassWord { kClassRows, kClassTiles, kClassResidues, kClassAt };  ///< then residues, then bits

}  // namespace weft::walk
