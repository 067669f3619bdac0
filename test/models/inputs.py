"""Example inputs of each kind of model: a dictionary of tensors, and which of their dims are dynamic.

Each function takes the configuration and a size, which sets the dynamic dims: the same program is run at several."""

import torch

BATCH, LENGTH = {0: "batch"}, {0: "batch", 1: "length"}


def _generator(size):
    return torch.Generator().manual_seed(size)


def _ids(config, batch, length, seed=0):
    config = getattr(config, "text_config", config)
    return torch.randint(3, getattr(config, "vocab_size", 200) - 2, (batch, length), generator=_generator(seed + length))


def _real(*shape):
    return torch.randn(shape, generator=_generator(sum(shape)))


def _mask(batch, length):
    """The last example is shorter by three."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, -3:] = 0
    return mask


def text(config, size, length=12):
    ids = _ids(config, size, length + size - 2)
    return dict(input_ids=(ids, LENGTH), attention_mask=(_mask(*ids.shape), LENGTH))


def text_unmasked(config, size):
    return dict(input_ids=(_ids(config, size, 10 + size), LENGTH))


def short_text(config, size):
    return dict(input_ids=(_ids(config, size, 6 + size), LENGTH))


def text_in_one_chunk(config, size):
    """Of no more than eight tokens, which the exported program asserts."""
    return dict(input_ids=(_ids(config, size, 4 + size), LENGTH))


def layout_of_numbers(config, size):
    words = text(config, size)
    return dict(words, bbox=(_real(*words["input_ids"][0].shape, 8), LENGTH))


def layout(config, size):
    words = text(config, size)
    corner = torch.randint(0, 500, (*words["input_ids"][0].shape, 2), generator=_generator(size))
    return dict(words, bbox=(torch.cat([corner, corner + 100], -1), LENGTH))


def translation(config, size):
    target = _ids(config, size, 4 + size, seed=1)
    return dict(text(config, size), decoder_input_ids=(target, {0: "batch", 1: "target"}))


def image(config, size, pixels=32):
    return dict(pixel_values=(_real(size, 3, pixels, pixels), BATCH))


def large_image(config, size):
    return image(config, size, 64)


def video(config, size):
    return dict(pixel_values=(_real(size, config.num_frames, 3, 32, 32), BATCH))


def pixel_tokens(config, size):
    return dict(input_ids=(_ids(config, size, 16), BATCH))


def sound(config, size):
    return dict(input_values=(_real(size, 600 + 100 * size), {0: "batch", 1: "time"}))


def sound_of_pairs(config, size):
    """Of an even number of frames after the convolutions, as the exported program asserts."""
    return dict(input_values=(_real(size, 400 + 200 * size), {0: "batch", 1: "time"}))


def spectrogram(config, size):
    return dict(input_values=(_real(size, config.max_length, config.num_mel_bins), BATCH))


def speech(config, size):
    features = _real(size, config.num_mel_bins, 2 * config.max_source_positions)
    return dict(input_features=(features, BATCH), decoder_input_ids=(_ids(config, size, 4 + size), {0: "batch", 1: "target"}))


def waveform(config, size):
    return dict(input_values=(_real(size, 1, 640), BATCH))


def vocoder(config, size):
    noise = _real(size, 10, config.model_in_channels)
    return dict(input_features=(_real(size, 10, config.num_mel_bins), BATCH), noise_sequence=(noise, BATCH))


def queries_in_text(config, size):
    ids = _ids(config, size, 22)
    ids[:, :16] = 199
    return dict(input_ids=(ids, BATCH), pixel_values=(_real(size, 3, 32, 32), BATCH), attention_mask=(torch.ones_like(ids), BATCH))


def image_and_text(config, size, pixels=32):
    ids = _ids(config, size, 10)
    ids[:, -1] = 2  # the end of the sentence, where some models look
    return dict(input_ids=(ids, BATCH), pixel_values=(_real(size, 3, pixels, pixels), BATCH), attention_mask=(torch.ones_like(ids), BATCH))


def large_image_and_text(config, size):
    return image_and_text(config, size, 64)


def image_in_text(config, size):
    """A sentence in which an image takes the place of sixteen tokens."""
    ids = _ids(config, size, 22)
    ids[:, 2:18] = 199
    return dict(input_ids=(ids, BATCH), pixel_values=(_real(size, 3, 32, 32), BATCH), attention_mask=(torch.ones_like(ids), BATCH))


def series(config, size):
    return dict(past_values=(_real(size, config.context_length, config.num_input_channels), BATCH))
