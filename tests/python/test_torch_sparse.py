"""Block-sparse modules and factories, beside attention of explicit masks in plain PyTorch. Skipped where there is no PyTorch."""

import copy
import inspect
import pickle

import pytest

torch = pytest.importorskip("torch")
import weft.torch as modules  # noqa: E402

SIZE, TOKENS, HEADS, DIM = 8, 64, 2, 16
BLOCKS = TOKENS // SIZE
LISTS = ([16, 32, 64, 64], [1, 3, 4, 7])
CONFIGS = {
    "local_window": {"local_window_size": 5 * SIZE},
    "dilated_sparse": {},
    "global_local": {"global_tokens": 2 * SIZE + 1, "local_window_size": 2 * SIZE},
    "no global": {"pattern_type": "global_local", "global_tokens": SIZE - 1, "local_window_size": 2 * SIZE},
}


def kept_blocks(name):
    """Rows as the original lists them, block by block."""
    kept = torch.zeros(BLOCKS, BLOCKS, dtype=torch.bool)
    for q in range(BLOCKS):
        for k in range(BLOCKS):
            kept[q, k] = {
                "local_window": q - 2 <= k <= q + 2,
                "dilated_sparse": q == k or abs(q - k) in (1, 3, 4),
                "global_local": k < 2 or q - 1 <= k <= q + 1,
                "no global": q - 1 <= k <= q + 1,
            }[name]
    return kept


def of_tokens(blocks):
    return blocks.repeat_interleave(SIZE, -1).repeat_interleave(SIZE, -2)


def plain_weights(q, k, kept, bias=None):
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    scores = scores if bias is None else scores + bias
    return scores.masked_fill(~kept, float("-inf")).softmax(-1).nan_to_num(0.0)


def plain(q, k, v, kept, bias=None):
    return torch.einsum("bhqk,bkhd->bqhd", plain_weights(q, k, kept, bias), v)


def close(found, want, **more):
    torch.testing.assert_close(found, want, atol=3e-5, rtol=1e-4, **more)


@pytest.fixture
def qkv():
    torch.manual_seed(5)
    return tuple(torch.randn(2, TOKENS, HEADS, DIM, requires_grad=True) for _ in range(3))


def made(name, kind=modules.BlockSparseRingDilatedAttention, **options):
    return kind(*LISTS, modules.SparsePatternConfig(**{"pattern_type": name, "block_size": SIZE, **CONFIGS[name]}), **options)


CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()


@pytest.mark.parametrize("kind", [modules.BlockSparseRingDilatedAttention, modules.BlockSparseOptimized])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("causal", [False, True])
def test_forward_and_gradients(qkv, kind, name, causal):
    kept = of_tokens(kept_blocks(name))
    found, want = made(name, kind)(*qkv, causal), plain(*qkv, kept & CAUSAL if causal else kept)
    close(found, want)
    by = torch.randn_like(want)
    for one, other in zip(torch.autograd.grad(found, qkv, by), torch.autograd.grad(want, qkv, by)):
        close(one, other)


@pytest.mark.parametrize("name", CONFIGS)
def test_statistics_count_what_is_kept(name):
    stats = made(name).get_pattern_stats(TOKENS)
    active = int(kept_blocks(name).sum())
    assert stats["total_blocks"] == BLOCKS**2 and stats["active_blocks"] == active
    assert stats["sparsity"] == pytest.approx(1 - active / BLOCKS**2)


@pytest.mark.parametrize("tokens", [TOKENS, TOKENS - 3])
@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_those_of_the_one_softmax(qkv, tokens, causal):
    q, k, v = (x[:, :tokens].detach() for x in qkv)
    module = made("dilated_sparse", ragged=True)
    out, weights = module(q, k, v, causal, return_attention_weights=True)
    close(out, module(q, k, v, causal))
    kept = of_tokens(kept_blocks("dilated_sparse")) & (CAUSAL if causal else True)
    whole = torch.zeros(2, HEADS, TOKENS, TOKENS)
    assert weights["block_size"] == SIZE and weights["shape"] == (2, HEADS, tokens, tokens)
    for (row, column), values in zip(weights["block_indices"], weights["block_values"]):
        whole[..., row * SIZE : (row + 1) * SIZE, column * SIZE : (column + 1) * SIZE] = values
    want = torch.zeros_like(whole)
    want[..., :tokens, :tokens] = plain_weights(q, k, kept[:tokens, :tokens])
    close(whole, want)


def test_any_number_of_tokens_where_it_is_asked_for(qkv):
    part = [x[:, : TOKENS - 3].detach() for x in qkv]
    with pytest.raises(ValueError, match="must be divisible by the block size, 8"):
        made("local_window")(*part)
    kept = of_tokens(kept_blocks("local_window"))[: TOKENS - 3, : TOKENS - 3]
    close(made("local_window", ragged=True)(*part), plain(*part, kept))


def test_dropout_acts_on_weights(qkv):
    q, k, _ = (x.detach() for x in qkv)
    module = made("local_window", dropout=0.5)
    ones = torch.ones(2, TOKENS, HEADS, DIM)
    sums = module(q, k, ones)  # weights that stay are doubled
    assert sums.std() > 0.1 and abs(sums.mean() - 1) < 0.1
    close(module.eval()(q, k, ones), ones)


# ---------------------------------------------------------------- levels


def kept_by_levels(levels):
    kept = torch.zeros(BLOCKS, BLOCKS, dtype=torch.bool)
    for stride, window in levels:
        for q in range(0, BLOCKS, max(1, stride // SIZE)):
            reach = BLOCKS if window == -1 else max(1, window // SIZE) // 2
            kept[q, max(0, q - reach) : q + reach + 1] = True
    return kept


LEVELS = [(SIZE, 3 * SIZE), (3 * SIZE, 5 * SIZE), (6 * SIZE, -1)]


def hierarchical(levels=LEVELS):
    config = modules.HierarchicalConfig([{"stride": s, "window_size": w, "block_size": SIZE} for s, w in levels])
    return modules.BlockSparseHierarchical(*LISTS, config, modules.SparsePatternConfig(block_size=SIZE))


@pytest.mark.filterwarnings("ignore::weft.PatternWarning")  # rows without keys
@pytest.mark.parametrize("levels", [LEVELS, LEVELS[1:], [(1, -1)]])
@pytest.mark.parametrize("causal", [False, True])
def test_levels(qkv, levels, causal):
    kept = of_tokens(kept_by_levels(levels))
    close(hierarchical(levels)(*qkv, causal), plain(*qkv, kept & CAUSAL if causal else kept))


def test_levels_of_the_default():
    stats = modules.BlockSparseHierarchical([2048], [1]).get_pattern_stats(2048)
    assert (stats["active_blocks"], stats["total_blocks"]) == (272, 1024)
    assert [level["active_positions"] for level in stats["levels"]] == [32, 8, 2]
    assert set(modules.get_hierarchical_presets()) == {"standard", "fine_grained", "long_range", "ultra_sparse"}
    assert modules.get_hierarchical_presets()["fine_grained"].num_levels == 4


def test_picture_of_levels():
    kept = kept_by_levels(LEVELS)
    finest = kept_by_levels(LEVELS[:1])
    rows = [line[1:-1] for line in hierarchical().visualize_pattern(TOKENS).splitlines() if line.startswith("│")]
    assert [[letter != " " for letter in row] for row in rows] == kept.tolist()
    assert [[letter == "▪" for letter in row] for row in rows] == finest.tolist()


# ---------------------------------------------------------------- chosen blocks


def adaptive(**options):
    torch.manual_seed(9)
    config = modules.AdaptiveConfig(base_sparsity=0.6, hidden_dim=12, **options)
    return modules.BlockSparseAdaptive(*LISTS, HEADS, DIM, config, block_size=SIZE).eval()


def plain_scores(module, q, k):
    """Each pair of block means, joined, through the head's network."""
    state = dict(module.named_parameters())

    def linear(x, name):
        return x @ state[f"{name}.weight"].mT + state[f"{name}.bias"]

    of_q, of_k = (
        linear(x.unflatten(1, (BLOCKS, SIZE)).mean(2), f"{name}_summary_proj") for x, name in ((q, "q"), (k, "k"))
    )  # [batch, blocks, heads, dim]
    scores = torch.empty(2, HEADS, BLOCKS, BLOCKS)
    for h in range(HEADS):
        for i in range(BLOCKS):
            for j in range(BLOCKS):
                x = torch.cat((of_q[:, i, h], of_k[:, j, h]), -1)
                if module.adaptive_config.share_across_heads:
                    x = linear(x, "importance_scorer.importance_net.0").relu()
                    x = linear(linear(x, "importance_scorer.importance_net.2").relu(), "importance_scorer.importance_net.4")
                else:
                    x = linear(x, f"importance_scorer.head_projections.{h}").relu()
                    network = f"importance_scorer.head_networks.{h}"
                    x = linear(linear(x, f"{network}.1").relu(), f"{network}.3")
                scores[:, h, i, j] = x[:, 0]
    return scores


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_chosen_blocks(qkv, shared, causal):
    module = adaptive(share_across_heads=shared)
    found, pattern = module(*qkv, causal, return_pattern=True)
    count = 3  # of 8, for 60 % are left out
    scores = plain_scores(module, *qkv[:2])
    kept = torch.zeros(2, HEADS, BLOCKS, BLOCKS, dtype=torch.bool)
    for b in range(2):
        for h in range(HEADS):
            for i in range(BLOCKS):
                others = sorted((j for j in range(i if causal else BLOCKS) if j != i), key=lambda j: -scores[b, h, i, j].item())  # noqa: B023
                kept[b, h, i, [i, *others[: count - 1]]] = True
    assert torch.equal(pattern["chosen"], kept)
    assert [list(zip(*(x.tolist() for x in head))) for head in pattern["patterns"]] == [
        [tuple(pair) for pair in kept[:, h].any(0).nonzero().tolist()] for h in range(HEADS)
    ]
    want = plain(*qkv, of_tokens(kept) & (CAUSAL if causal else True))
    close(found, want)
    by = torch.randn_like(want)
    for one, other in zip(torch.autograd.grad(found, qkv, by), torch.autograd.grad(want, qkv, by)):
        close(one, other)


def test_noise_of_choices_in_training_alone(qkv):
    module = adaptive()
    same = [module(*qkv, return_pattern=True)[1]["chosen"] for _ in range(2)]
    assert torch.equal(*same)
    module.train()
    torch.manual_seed(1)
    drawn = [module(*qkv, return_pattern=True)[1]["chosen"] for _ in range(2)]
    assert not torch.equal(*drawn)
    assert all(one.sum(-1).eq(3).all() and one.diagonal(dim1=-2, dim2=-1).all() for one in drawn)
    assert module.get_pattern_stats(TOKENS)["active_blocks"] == 3 * BLOCKS and module.get_sparsity_loss() == 0


def test_names_of_the_scorer_s_state():
    names = {name for name, _ in adaptive().named_parameters()}
    parts = [f"importance_scorer.head_projections.{h}" for h in range(HEADS)]
    parts += [f"importance_scorer.head_networks.{h}.{i}" for h in range(HEADS) for i in (1, 3)]
    parts += ["q_summary_proj", "k_summary_proj"]
    assert names == {f"{part}.{x}" for part in parts for x in ("weight", "bias")} | {"log_temperature"}
    fixed = adaptive(learnable_temperature=False, temperature=2.0)
    assert "log_temperature" not in dict(fixed.named_parameters())
    assert fixed.state_dict()["log_temperature"].exp() == pytest.approx(2.0)


# ---------------------------------------------------------------- with projections


def multihead(**options):
    torch.manual_seed(3)
    config = {"pattern_type": "local_window", "block_size": SIZE, "local_window_size": 5 * SIZE}
    return modules.BlockSparseRingMultiheadDilatedAttention(HEADS * DIM, HEADS, *LISTS, sparse_config=config, **options)


def plain_multihead(module, query, key, value, kept, bias=None):
    state = dict(module.named_parameters())

    def linear(x, name):
        return x @ state[f"{name}.weight"].mT + (state[f"{name}.bias"] if f"{name}.bias" in state else 0)

    parts = ((query, "q_proj"), (key, "k_proj"), (value, "v_proj"))
    q, k, v = (linear(x, name).unflatten(-1, (HEADS, DIM)) for x, name in parts)
    return linear(plain(q, k, v, kept, bias).flatten(-2), "out_proj")


@pytest.mark.parametrize("mask", ["none", "bool", "float"])
@pytest.mark.parametrize("padded", [False, True])
def test_masks_and_padding_count(mask, padded):
    torch.manual_seed(8)
    query, key, value = (torch.randn(2, TOKENS, HEADS * DIM) for _ in range(3))
    given = {"none": None, "bool": torch.rand(TOKENS, TOKENS) < 0.3, "float": torch.randn(2, TOKENS, TOKENS)}[mask]
    kept, bias = of_tokens(kept_blocks("local_window"))[None, None] & CAUSAL, None
    if mask == "bool":
        kept = kept & ~given
    if mask == "float":
        bias = given[:, None]
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    if padded:
        padding[1, 50:] = True
        kept = kept & ~padding[:, None, None]
    module = multihead()
    how = {"attn_mask": given, "key_padding_mask": padding if padded else None, "is_causal": True}
    want = plain_multihead(module, query, key, value, kept, bias)
    close(module(query, key, value, **how), want)
    out, weights = module(query, key, value, need_weights=True, **how)
    close(out, want)
    sums = torch.zeros(2, HEADS, TOKENS)
    for (row, _), values in zip(weights["block_indices"], weights["block_values"]):
        sums[..., row * SIZE : (row + 1) * SIZE] += values.sum(-1)
    close(sums, kept.any(-1).float().expand(2, HEADS, TOKENS))
    other = multihead(batch_first=False)
    close(other(*(x.transpose(0, 1) for x in (query, key, value)), **how).transpose(0, 1), want)


def test_state_loads_strictly():
    module = multihead(bias=False)
    assert set(module.state_dict()) == {f"{x}_proj.weight" for x in ("q", "k", "v", "out")}
    state = {name: torch.randn_like(x) for name, x in multihead().state_dict().items()}
    loaded = multihead()
    loaded.load_state_dict(state, strict=True)
    x = torch.randn(1, TOKENS, HEADS * DIM)
    close(loaded(x, x, x), plain_multihead(loaded, x, x, x, of_tokens(kept_blocks("local_window"))))
    with pytest.raises(RuntimeError, match="Missing key"):
        loaded.load_state_dict({name: x for name, x in state.items() if "k_proj" not in name}, strict=True)


# ---------------------------------------------------------------- constructors, copies, errors


@pytest.mark.parametrize("make", [lambda: made("global_local"), hierarchical, adaptive], ids=["fixed", "levels", "adaptive"])
def test_copies(qkv, make):
    module = make()
    want = module(*qkv)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(*qkv), want)


def test_constructor_errors():
    kind, config = modules.BlockSparseRingDilatedAttention, modules.SparsePatternConfig
    with pytest.raises(ValueError, match="Unknown pattern type: 'learned'"):
        kind([8], [1], config(pattern_type="learned"))
    with pytest.raises(ValueError, match="block_size is 0; it must be positive"):
        kind([8], [1], config(block_size=0))
    with pytest.raises(ValueError, match="segment_lengths cannot be empty"):
        kind([], [])
    with pytest.raises(TypeError, match="no option 'sparsty'"):
        kind([8], [1], sparsty=3)
    with pytest.raises(ValueError, match="base_sparsity is 1.0; it must be between 0.0 and 1.0"):
        modules.BlockSparseAdaptive([8], [1], 2, 8, modules.AdaptiveConfig(base_sparsity=1.0))
    with pytest.raises(ValueError, match=r"embed_dim \(30\) must be divisible by num_heads \(4\)"):
        modules.BlockSparseRingMultiheadDilatedAttention(30, 4, [8], [1])
    assert kind([8], [1], {"block_size": 32}).block_size == 32
    assert kind([8], [1], sparsity_config=config(block_size=16), use_tf32=True, ring_size=2).block_size == 16


def test_forward_errors(qkv):
    q, k, v = (x.detach() for x in qkv)
    for module in (made("local_window"), adaptive()):
        with pytest.raises(ValueError, match="expected 4D tensor"):
            module(q[0], k, v)
        with pytest.raises(ValueError, match="Shape mismatch at dimension 1"):
            module(q, k[:, :16], v)
    with pytest.raises(ValueError, match="q has 1 heads of 16; expected 2 of 16"):
        adaptive()(q[:, :, :1], k[:, :, :1], v[:, :, :1])
    with pytest.raises(ValueError, match="Expected 3D tensors"):
        multihead()(q, k, v)


CREATED = {
    "standard": (modules.DilatedAttention, modules.MultiheadDilatedAttention),
    "improved": (modules.ImprovedDilatedAttention, modules.ImprovedMultiheadDilatedAttention),
    "auto": (modules.ImprovedDilatedAttention, modules.ImprovedMultiheadDilatedAttention),
    "ring": (modules.RingDilatedAttention, modules.RingMultiheadDilatedAttention),
    "block_sparse_ring": (modules.BlockSparseRingDilatedAttention, modules.BlockSparseRingMultiheadDilatedAttention),
}


@pytest.mark.parametrize("name", CREATED)
def test_factories(name):
    attention, with_projections = CREATED[name]
    one = modules.create_dilated_attention(name, [8, 16], [1, 2], dropout=0.25)
    assert type(one) is attention and one.dropout == 0.25 and one.dilation_rates == [1, 2]
    other = modules.create_multihead_dilated_attention(name, 32, 4, [8, 16], [1, 2], bias=False)
    assert type(other) is with_projections and other.out_proj.bias is None and other.head_dim == 8
    defaults = modules.create_dilated_attention(name)
    assert (list(defaults.segment_lengths), list(defaults.dilation_rates)) == ([2048, 4096, 8192], [1, 2, 4])


def test_factories_of_sparse_modules():
    one = modules.create_block_sparse_attention(0.8, "local_window", 32, 4, block_size=16)
    config = one.sparse_attention.sparse_config
    assert (config.sparsity_ratio, config.pattern_type, config.block_size) == (0.8, "local_window", 16)
    preset = modules.get_hierarchical_presets()["long_range"]
    assert modules.create_hierarchical_attention(32, 4, hierarchical_config=preset).hierarchical_config is preset
    assert modules.create_adaptive_block_sparse(32, 4, block_size=16).head_dim == 8
    with pytest.raises(ValueError, match="create_adaptive_block_sparse"):
        modules.create_adaptive_sparse_attention()
    for create in (modules.create_dilated_attention, modules.create_multihead_dilated_attention):
        with pytest.raises(ValueError, match="Unknown attention type 'standart'"):
            create("standart")
    with pytest.raises(TypeError, match="dropuot"):
        modules.create_dilated_attention("improved", dropuot=0.1)


def signature(of):
    """Names and defaults by place, then whether further keywords are taken."""
    kinds = inspect.Parameter
    every = [p for p in inspect.signature(of).parameters.values() if p.name != "self"]
    places = [(p.name, ... if p.default is p.empty else p.default) for p in every if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    return places, any(p.kind is kinds.VAR_KEYWORD for p in every)


LISTS_OF = [("segment_lengths", ...), ("dilation_rates", ...)]
NO_LISTS = [("segment_lengths", None), ("dilation_rates", None)]
QKV = [("q", ...), ("k", ...), ("v", ...), ("is_causal", False)]
SIGNATURES = {
    "BlockSparseRingDilatedAttention": ([*LISTS_OF, ("sparse_config", None)], True),
    "BlockSparseOptimized": ([*LISTS_OF, ("sparse_config", None), ("enable_batched_ops", True), ("cache_size", 100)], True),
    "BlockSparseHierarchical": ([*LISTS_OF, ("hierarchical_config", None), ("sparse_config", None)], True),
    "BlockSparseAdaptive": ([*LISTS_OF, ("num_heads", ...), ("head_dim", ...), ("adaptive_config", None)], True),
    "BlockSparseRingMultiheadDilatedAttention": (
        [("embed_dim", ...), ("num_heads", ...), *LISTS_OF, ("dropout", 0.0), ("bias", True), ("sparse_config", None), ("batch_first", True)],
        True,
    ),
    "SparsePatternConfig": (
        [("pattern_type", "dilated_sparse"), ("sparsity_ratio", 0.1), ("block_size", 128), ("local_window_size", 512), ("global_tokens", 64)],
        False,
    ),
    "HierarchicalConfig": ([("level_configs", None)], False),
    "AdaptiveConfig": (
        [("base_sparsity", 0.9), ("temperature", 1.0), ("learnable_temperature", True), ("min_temperature", 0.1), ("hidden_dim", 128),
         ("num_layers", 2), ("share_across_heads", False), ("sparsity_reg_weight", 0.01), ("hard_sparsity", False)],
        False,
    ),
    "create_dilated_attention": ([("attention_type", "auto"), *NO_LISTS], True),
    "create_multihead_dilated_attention": ([("attention_type", "auto"), ("embed_dim", 768), ("num_heads", 12), *NO_LISTS], True),
    "create_block_sparse_attention": (
        [("sparsity_ratio", 0.9), ("pattern_type", "dilated_sparse"), ("embed_dim", 768), ("num_heads", 12)], True
    ),
    "create_adaptive_sparse_attention": ([("embed_dim", 768), ("num_heads", 12), ("min_sparsity", 0.1), ("max_sparsity", 0.9)], True),
    "create_hierarchical_attention": ([("embed_dim", ...), ("num_heads", ...), *NO_LISTS, ("hierarchical_config", None)], True),
    "create_adaptive_block_sparse": ([("embed_dim", ...), ("num_heads", ...), *NO_LISTS, ("adaptive_config", None)], True),
    "get_hierarchical_presets": ([], False),
    "BlockSparseRingDilatedAttention.forward": ([*QKV, ("return_attention_weights", False)], False),
    "BlockSparseAdaptive.forward": ([*QKV, ("return_pattern", False)], False),
    "BlockSparseRingMultiheadDilatedAttention.forward": (
        [("query", ...), ("key", ...), ("value", ...), ("key_padding_mask", None), ("need_weights", False), ("attn_mask", None),
         ("is_causal", False), ("average_attn_weights", True)],
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_the_originals(name):
    found = modules
    for part in name.split("."):
        found = getattr(found, part)
    assert signature(found) == SIGNATURES[name]


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@pytest.mark.parametrize("make", [lambda: made("global_local"), adaptive], ids=["fixed", "adaptive"])
def test_compiles_without_a_break(qkv, make):
    module = make()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*qkv, True), module(*qkv, True))
