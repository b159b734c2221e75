#include "tools/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace weft::npy {
namespace {

NpyArray counting(Type type, std::vector<std::int64_t> shape) {
  ir::Tensor tensor(std::move(shape));
  for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = static_cast<double>(i);
  return from_tensor(tensor, type);
}

std::string file_of(int version, std::string dictionary, const std::string& values) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(dictionary.size() >> (8 * i) & 0xFFU);
  return out + dictionary + values;
}

std::string bytes_of(const std::vector<std::uint8_t>& values) { return {values.begin(), values.end()}; }

std::string error_of(const std::string& file) {
  const auto array = decode(file, "x.npy");
  if (array.ok()) return "";
  EXPECT_EQ(array.error().kind, ErrorKind::user);
  return array.error().message;
}

TEST(Npy, EveryTypeAndRankSurvives) {
  for (const Type type : {Type::f2, Type::f4, Type::f8, Type::i4, Type::u1, Type::u2, Type::v2}) {
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{{}, {3}, {0, 4}, {2, 3}, {2, 1, 3, 2}}) {
      const NpyArray array = counting(type, shape);
      const std::string file = encode(array);
      EXPECT_EQ((file.size() - array.bytes.size()) % 64, 0U);
      const auto again = decode(file, "x.npy");
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_EQ(again.value(), array);
      EXPECT_EQ(to_tensor(again.value()).data, to_tensor(array).data);
    }
  }
}

TEST(Npy, ValuesThatAreReadWhenAskedAreTheSame) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft-npy-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto path = (folder / "x.npy").string();
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{}, {0, 4}, {5, 1000}}) {
    const NpyArray array = counting(Type::f4, shape);
    ASSERT_TRUE(write(path, array).ok());
    auto mapped = read(path, Values::when_asked);
    ASSERT_TRUE(mapped.ok()) << mapped.error().message;
    EXPECT_EQ(*mapped, array);
    EXPECT_EQ(*mapped, read(path).value());
    if (mapped->bytes.empty()) continue;
    mapped->bytes[0] = std::byte{77};  // here alone
    EXPECT_EQ(read(path).value(), array);
    const NpyArray copy = *mapped;
    std::filesystem::remove(path);
    EXPECT_EQ(copy, *mapped);
  }
  const std::string header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }\n";
  std::ofstream(path, std::ios::binary) << file_of(1, header, bytes_of({0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
  EXPECT_EQ(read(path, Values::when_asked).value(), counting(Type::u1, {2, 3, 2}));
  std::filesystem::remove_all(folder);
}

TEST(Npy, FortranOrderBecomesRowMajor) {
  const std::string header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }\n";
  const auto array = decode(file_of(1, header, bytes_of({0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11})), "x.npy");
  ASSERT_TRUE(array.ok()) << array.error().message;
  EXPECT_EQ(array.value(), counting(Type::u1, {2, 3, 2}));
}

TEST(Npy, EveryVersionAndSpelling) {
  for (const int version : {1, 2, 3}) {
    for (const char* header : {"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }  \n",
                               "{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"<u1\"}",
                               "{'fortran_order':True,'descr':'=u1','shape':( 2 , )}"}) {
      EXPECT_EQ(error_of(file_of(version, header, bytes_of({0, 1}))), "") << header;
    }
  }
}

TEST(Npy, ErrorsSayWhatWasFoundAndWhatWasExpected) {
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  EXPECT_EQ(error_of(file_of(1, start + "(2, 3)}", std::string(20, 'x'))),
            "x.npy: 20 bytes of values, expected 24 for shape [2, 3] of <f4");
  EXPECT_EQ(error_of(file_of(1, "{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "1234")),
            "x.npy: type '>f4', expected one of <f2 <f4 <f8 <i4 |u1 <u2 |V2");
  EXPECT_EQ(error_of(file_of(9, start + "()}", "1234")), "x.npy: .npy version 9, expected 1, 2 or 3");
  EXPECT_EQ(error_of("PK\x03\x04 this is an npz"),
            "x.npy: not an .npy file (it does not begin with the format's magic bytes)");
  EXPECT_EQ(error_of(file_of(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "1234")),
            "x.npy: a structured type is not a tensor");
  EXPECT_EQ(error_of(file_of(1, start + "(), 'shape': ()}", "1234")), "x.npy: the header has 'shape' twice");
  EXPECT_EQ(error_of(file_of(1, "{'descr': '<f4', 'shape': ()}", "1234")),
            "x.npy: the header needs descr, fortran_order and shape");
}

TEST(Npy, HostileHeadersAreRefusedAtOnce) {
  const std::string start = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
  EXPECT_NE(error_of(file_of(1, start + "1099511627776, 1099511627776, 16)}", "x")).find("more than a file can hold"),
            std::string::npos);
  EXPECT_NE(error_of(file_of(1, start + "99999999999999999999999999)}", "x")), "");
  EXPECT_NE(error_of(file_of(1, start + "-1)}", "x")), "");
  std::string deep = start;
  for (int i = 0; i < 1000; ++i) deep += "1, ";
  EXPECT_EQ(error_of(file_of(1, deep + ")}", "x")), "x.npy: more than 32 axes");
  EXPECT_NE(error_of("\x93NUMPY\x02" + std::string("\0\xff\xff\xff\xff", 5) + "{").find("a header of 4294967295 bytes"),
            std::string::npos);
}

/// No prefix and no changed byte of a good file crashes the reader or gives more values than there are.
TEST(Npy, DamagedFiles) {
  const std::string file = encode(counting(Type::f4, {3, 5}));
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NE(error_of(file.substr(0, size)), "") << size;
  for (std::size_t i = 0; i < 128; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const auto array = decode(damaged, "x.npy");
      EXPECT_TRUE(!array.ok() || array.value().bytes.size() == 60);
    }
  }
}

TEST(Npy, FilesAppearWholeOrNotAtAll) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft-npy-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "a.npy";
  const NpyArray array = counting(Type::v2, {2, 3});
  ASSERT_TRUE(write(path, array).ok());
  ASSERT_TRUE(write(path, array).ok()) << "over an old file";
  const auto again = read(path);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value(), array);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);

  const Status nowhere = write(folder / "no" / "a.npy", array);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().kind, ErrorKind::environment);
  const auto missing = read(folder / "b.npy");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "cannot read " + (folder / "b.npy").string() + ": No such file or directory");
  EXPECT_EQ(read(folder).error().message, folder.string() + " is a directory");
  std::filesystem::remove_all(folder);
}

TEST(Npy, ValuesAreRoundedToTheType) {
  const ir::Tensor value = [] {
    ir::Tensor t({2});
    t.data = {1.0 / 3, -65504};
    return t;
  }();
  EXPECT_EQ(to_tensor(from_tensor(value, Type::f2)).data, (std::vector<double>{0.333251953125, -65504}));
  EXPECT_EQ(to_tensor(from_tensor(value, Type::v2)).data, (std::vector<double>{0.333984375, -65536}));
  EXPECT_EQ(to_tensor(from_tensor(value, Type::f8)).data, value.data);
}

}  // namespace
}  // namespace weft::npy
