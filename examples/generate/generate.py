"""Generates tokens with a compiled language model, as generate.cpp does, with the same options, draws and results."""

import argparse
import concurrent.futures

import numpy

import kiln


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def draw(self):
        mask = (1 << 64) - 1
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return ((z ^ z >> 31) >> 11) * 2.0**-53


def get_last(logits):
    """The logits behind the last token, of f32 or bf16, which numpy does not know."""
    last = logits[0, -1]
    return (last.view("uint16").astype("uint32") << 16).view("float32") if last.dtype.kind == "V" else last


def sample(logits, top_p, temperature, random):
    order = numpy.argsort(-logits, kind="stable")
    sorted_logits = logits[order].astype("float64")
    sums = numpy.cumsum(numpy.exp((sorted_logits - sorted_logits[0]) / temperature))
    last = numpy.searchsorted(sums[:-1], top_p * sums[-1])
    return int(order[numpy.searchsorted(sums[:last], random.draw() * sums[last], side="right")])


def generate(session, prompt, tokens, end, top_p, temperature, random):
    prefill, decode = session.entry("prefill"), session.entry("decode")
    result = []
    for i in range(tokens):
        step, first = ([result[-1]], len(prompt) + i - 1) if i else (prompt, 0)
        read = prefill if len(step) > 1 else decode
        logits = read(numpy.array([step]), numpy.arange(first, first + len(step)))
        values = get_last(numpy.asarray(logits))
        result.append(int(values.argmax()) if top_p is None else sample(values, top_p, temperature, random))
        if result[-1] == end:
            break
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--prompt", action="append", required=True, type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--end", type=int, default=-1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--weights")
    a = parser.parse_args()
    model = kiln.load(a.model, threads=a.threads, weights=a.weights)
    with concurrent.futures.ThreadPoolExecutor(len(a.prompt)) as pool:
        runs = [
            pool.submit(generate, model.session(), prompt, a.tokens, a.end, a.top_p, a.temperature, Random(a.seed + i))
            for i, prompt in enumerate(a.prompt)
        ]
    for run in runs:
        print(*run.result())


if __name__ == "__main__":
    main()
