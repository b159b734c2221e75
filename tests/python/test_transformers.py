"""Tiny models with random weights: logits, gradients and generated tokens are those of `eager`. Skipped without transformers."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import weft  # noqa: E402
import weft.transformers  # noqa: E402

TINY = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**TINY),
    "mistral": lambda: transformers.MistralConfig(**TINY, sliding_window=7),
    "gemma2": lambda: transformers.Gemma2Config(
        **TINY, sliding_window=7, attn_logit_softcapping=3.0, query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"]
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **TINY, sliding_window=7, num_local_experts=2, num_experts_per_tok=1, layer_types=["sliding_attention", "full_attention"]
    ),
}


@pytest.fixture(scope="module", autouse=True)
def registered():
    weft.transformers.register()


def pair(name):
    torch.manual_seed(2)
    eager = transformers.AutoModelForCausalLM.from_config(MODELS[name](), attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in eager.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    own = copy.deepcopy(eager)
    own.set_attn_implementation("weft")
    return own, eager


def tokens(padding=None):
    torch.manual_seed(4)
    ids = torch.randint(2, 96, (2, 20))
    present = torch.ones_like(ids)
    if padding is not None:
        present[1, slice(0, 6) if padding == "left" else slice(-6, None)] = 0
    return ids * present, present


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("padding", [None, "left", "right"])
def test_logits_and_gradients(name, padding):
    own, eager = pair(name)
    ids, present = tokens(padding)
    # A row that is padding keeps nothing, where eager keeps everything: no loss is asked of it.
    follows = torch.cat([torch.zeros(2, 1), present[:, :-1]], 1)
    labels = ids.masked_fill((present == 0) | (follows == 0), -100)
    results = [model(ids, attention_mask=present, labels=labels) for model in (own, eager)]
    on = present.bool()
    torch.testing.assert_close(results[0].logits[on], results[1].logits[on], atol=2e-4, rtol=1e-3)
    for result in results:
        result.loss.backward()
    for (which, one), other in zip(own.named_parameters(), eager.parameters()):
        if other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, atol=5e-4, rtol=1e-3, msg=lambda said, which=which: f"{which}: {said}")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("padding", [None, "left"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_greedy_generation(name, padding, cache):
    own, eager = pair(name)
    ids, present = tokens(padding)
    options = {"attention_mask": present, "max_new_tokens": 12, "do_sample": False, "cache_implementation": cache}
    assert torch.equal(own.generate(ids, **options), eager.generate(ids, **options))


def test_packed_positions():
    own, eager = pair("llama")
    ids, _ = tokens()
    positions = torch.cat([torch.arange(8), torch.arange(12)]).expand(2, -1)
    found, wanted = (model(ids, position_ids=positions, use_cache=False).logits for model in (own, eager))
    torch.testing.assert_close(found, wanted, atol=2e-4, rtol=1e-3)


def test_no_mask_is_made_where_a_pattern_says_it():
    say = weft.transformers._mask
    assert say(2, 5, 9, q_offset=4) is None
    assert say(2, 5, 9, q_offset=4, attention_mask=torch.ones(2, 9)) is None
    present = torch.ones(2, 9)
    present[0, 0] = 0
    assert torch.equal(say(2, 5, 9, q_offset=4, attention_mask=present), present.bool())
    window = transformers.masking_utils.sliding_window_causal_mask_function(3)
    assert say(2, 5, 9, q_offset=4, mask_function=window, local_size=3) is None
    assert say(2, 5, 9, q_offset=0).shape == (2, 1, 5, 9)


def test_a_pattern_of_ones_own():
    weft.transformers.register("weft_local", weft.causal & weft.window(3, 0))
    own, _ = pair("llama")
    own.set_attn_implementation("weft_local")
    windowed = transformers.MistralConfig(**TINY, sliding_window=4)
    eager = transformers.AutoModelForCausalLM.from_config(windowed, attn_implementation="eager").float().eval()
    eager.load_state_dict(own.state_dict())
    ids, present = tokens("left")
    found, wanted = (model(ids, attention_mask=present).logits[present.bool()] for model in (own, eager))
    torch.testing.assert_close(found, wanted, atol=2e-4, rtol=1e-3)
    with pytest.raises(TypeError, match="expected a weft.Set"):
        weft.transformers.register("mine", "causal")


def test_weights_are_refused():
    with pytest.raises(weft.ArgumentError, match="attn_implementation='eager'"):
        weft.transformers._Attention(None)(torch.nn.Module(), *[torch.randn(1, 2, 4, 16)] * 3, None, output_attentions=True)
