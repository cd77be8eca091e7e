"""Architectures of transformers, small and with random weights: whether compiled models compute what eager does.

    python -m bench.architectures [--only bert,gpt2] [--step 5] [--seconds 600] [--jobs 1] [--update] [--resume]

Needs torch, torchvision and transformers. Each architecture is built from its own configuration, in which sizes are
lowered (`SIZES`); one that cannot be built or run that way in eager is out of scope. Each runs in a process of its own.

`--update` writes each verdict into `bench/results/architectures.json` at once; without it, differences from that file
are printed. `--resume` leaves out the architectures that the file has.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import argparse
import inspect
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.pool import ThreadPool
from typing import Any, NamedTuple

from rich.progress import track

from bench.export_models import import_torchvision
from bench.facts import RESULTS
from bench.own_process import CrashError, call_alone
from bench.time_limit import time_limit
from ir.diagnostics import EqsatWarning
from ir.host.atomic_file import write_atomically
from ir.tiny.flush import flush_denormals

PATH = RESULTS / "architectures.json"
RIGHT, WRONG, LATE, CRASHED = "right", "wrong result", "time limit", "crash"
RANDOM, OUT_OF_SCOPE = "random in eager", "out of scope"
TOLERANCE = 1e-3
"""Relative to the largest value of a result: sums of models with random weights differ by their order."""
TOKENS, PIXELS, SAMPLES, FRAMES = 12, 64, 8000, 100
SIZES = {
    64: "hidden_size d_model n_embd dim embed_dim embedding_size encoder_hidden_size decoder_hidden_size",
    128: "intermediate_size n_inner d_ff encoder_ffn_dim decoder_ffn_dim ffn_dim vocab_size max_position_embeddings "
    "n_positions",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers depth num_key_value_heads "
    "num_experts_per_tok",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_experts "
    "num_local_experts n_routed_experts",
    16: "head_dim d_kv rotary_dim q_lora_rank kv_lora_rank v_head_dim",
    8: "qk_rope_head_dim qk_nope_head_dim",
    32: "moe_intermediate_size projection_dim",
    PIXELS: "image_size",
}
"""Sizes, and the fields of configurations that are lowered to them."""


class Verdict(NamedTuple):
    """How an architecture ended. kind: one of the constants above. programs: compiled. seconds: of the first call.
    error: the largest, relative to the largest value of a result. left: what eqsat warned of."""

    architecture: str
    kind: str
    reason: str = ""
    programs: int = 0
    seconds: float = 0.0
    error: float = 0.0
    left: tuple[str, ...] = ()


class _OutOfScopeError(Exception):
    """transformers cannot build or run the small model in eager."""


def class_names(only: str) -> dict[str, str]:
    """The class of the model without a head, by the names of architectures that contain one of the texts."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    named = {name: found if isinstance(found, str) else found[0] for name, found in MODEL_MAPPING_NAMES.items()}
    return {name: found for name, found in named.items() if any(text in name for text in only.split(","))}


def run(task: tuple[str, str, int]) -> Verdict:
    """Compares an architecture with eager, within a time limit in seconds."""
    architecture, class_, limit = task
    try:
        with time_limit(limit):
            return _compare(architecture, class_)
    except TimeoutError:
        return Verdict(architecture, LATE)
    except _OutOfScopeError as error:
        return Verdict(architecture, OUT_OF_SCOPE, _first_line(error))
    except Exception as error:  # whatever else compiling raises is a defect of eqsat
        return Verdict(architecture, CRASHED, f"{type(error).__name__}: {_first_line(error)}")


def run_alone(task: tuple[str, str, int]) -> Verdict:
    """`run` in a process of its own, which may crash: a model may be too large for the memory."""
    try:
        return call_alone(run, task)
    except CrashError as error:
        return Verdict(task[0], CRASHED, str(error))


def _compare(architecture: str, class_: str) -> Verdict:
    import torch

    model, batch = _in_eager(architecture, class_)
    with torch.no_grad():
        first, second = (list(_tensors(model(**batch))) for _ in range(2))
    programs: list[Any] = []
    start = time.perf_counter()
    with torch.no_grad(), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", EqsatWarning)
        compiled = torch.compile(model, backend="eqsat", options={"on_program": programs.append})
        results = list(_tensors(compiled(**batch)))
    seconds = round(time.perf_counter() - start, 1)
    left = tuple(sorted({str(one.message) for one in seen if issubclass(one.category, EqsatWarning)}))
    error = _error(first, results)
    kind = RIGHT if error <= TOLERANCE else WRONG if _error(first, second) <= TOLERANCE else RANDOM
    return Verdict(architecture, kind, "", len(programs), seconds, float(f"{error:.2g}"), left)


def _in_eager(architecture: str, class_: str) -> tuple[Any, Mapping[str, Any]]:
    """A small model and a batch on which it runs in eager."""
    import torch

    import_torchvision()  # before transformers, which imports torchvision
    import transformers as hf

    torch.manual_seed(0)
    try:
        config = hf.AutoConfig.for_model(architecture)
        _lower_sizes(config)
        model = getattr(hf, class_)(config).eval().float()
        _fill_zero_matrices(model)
        batch = _batch(model)
        with torch.no_grad():
            model(**batch)
    except TimeoutError:
        raise
    except Exception as error:  # of transformers, whose sizes may not fit one another
        raise _OutOfScopeError(f"{type(error).__name__}: {error}") from error
    return model, batch


def _fill_zero_matrices(model: Any) -> None:
    """A router of zeros chooses between equal experts, of which eager and eqsat take others."""
    import torch

    for weight in model.parameters():
        if weight.ndim > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.05)


def _lower_sizes(config: Any) -> None:
    """Lowers the sizes of a configuration and of the configurations inside, and leaves dropout out."""
    import transformers as hf

    most = {name: size for size, names in SIZES.items() for name in names.split()}
    for name, value in list(vars(config).items()):
        if isinstance(value, hf.PreTrainedConfig):
            _lower_sizes(value)
        elif name in most and type(value) is int:
            setattr(config, name, min(value, most[name]))
        elif "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
        elif name.endswith("token_id") and type(value) is int:
            setattr(config, name, min(value, 1))
        elif name == "layer_types" and value:
            setattr(config, name, [*dict.fromkeys(value), value[0]][:2])


def _batch(model: Any) -> dict[str, Any]:
    """Two seeded examples of the inputs that the model takes, of different lengths where it takes a mask."""
    import torch

    parameters = inspect.signature(model.forward).parameters
    tokens = torch.randint(3, 100, (2, TOKENS))
    mask = torch.ones_like(tokens)
    mask[1, -3:] = 0
    vision = getattr(model.config, "vision_config", model.config)
    pixels = getattr(vision, "image_size", PIXELS)
    height, width = pixels if isinstance(pixels, list | tuple) else (pixels, pixels)
    batch = {
        "input_ids": tokens,
        "attention_mask": mask if "input_ids" in parameters else None,
        "decoder_input_ids": tokens,
        "pixel_values": torch.randn(2, getattr(vision, "num_channels", 3), height, width),
        "input_values": torch.randn(2, SAMPLES),
        "input_features": torch.randn(
            2,
            getattr(model.config, "num_mel_bins", 80),
            2 * getattr(model.config, "max_source_positions", FRAMES // 2),
        ),
    }
    return {name: tensor for name, tensor in batch.items() if name in parameters and tensor is not None}


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in what a model returns, in order; caches are left out."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(part)


def _error(expected: Sequence[Any], results: Sequence[Any]) -> float:
    """The largest error, relative to the largest value of a result, where denormals count as 0; inf where dtypes or
    shapes differ."""
    from eqsat.runtime.verify import relative_error

    if [(a.dtype, a.shape) for a in expected] != [(a.dtype, a.shape) for a in results]:
        return float("inf")
    pairs = [tuple(flush_denormals(one.numpy()) for one in pair) for pair in zip(results, expected, strict=True)]
    return max((relative_error(result, wanted) for result, wanted in pairs), default=0.0)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:160]


def difference(verdict: Verdict, stored: Mapping[str, Mapping[str, Any]]) -> str:
    """How an architecture ended, if not as in the stored verdicts."""
    before = stored.get(verdict.architecture, {}).get("kind", "not run")
    return f"{verdict.architecture}: {before} → {verdict.kind} {verdict.reason}" if before != verdict.kind else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="the architectures whose names contain one of these, with commas")
    parser.add_argument("--step", type=int, default=1, help="5: every fifth architecture")
    parser.add_argument("--seconds", type=int, default=600, help="the limit of each architecture")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--update", action="store_true", help="write the verdicts")
    parser.add_argument("--resume", action="store_true", help="leave out those that have a verdict")
    options = parser.parse_args()
    import_torchvision()  # before transformers, which imports torchvision
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    wanted = list(class_names(options.only).items())[:: options.step]
    tasks = [(*named, options.seconds) for named in wanted if not (options.resume and named[0] in stored)]
    kinds: Counter[str] = Counter()
    with ThreadPool(options.jobs) as pool:
        for verdict in track(pool.imap_unordered(run_alone, tasks), "architectures", len(tasks)):
            kinds[verdict.kind] += 1
            if line := difference(verdict, stored):
                print(line)
            if options.update:
                stored[verdict.architecture] = verdict._asdict()
                text = json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False)
                write_atomically(PATH, f"{text}\n".encode())
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")


if __name__ == "__main__":
    main()
