"""Models with large planes beside the ten of models.py: segmentation, detection and audio, fp32, batch 1, at published dimensions.

unet            U-Net (Ronneberger et al. 2015) as it is reimplemented: padded convolutions, batch norms, transposed convolutions
yolo            a detector after YOLOv8s: stages of split blocks, pooling pyramid, two ways through a feature pyramid, heads for three scales
upernet         UPerNet on ConvNeXt-tiny: pooling pyramid, feature pyramid, bilinear upsampling
segformer-b0    SegFormer-B0
wav2vec2-base   Wav2Vec2-base on one second of audio: 1-d convolutions with few and many channels"""

NAMES = ["unet", "yolo", "upernet", "segformer-b0", "wav2vec2-base"]


def _unet(width, depth, classes):
    import torch
    from torch import nn

    def block(inputs, outputs):
        layers = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [width << level for level in range(depth)]
            self.down = nn.ModuleList(block(i, o) for i, o in zip([3, *widths], widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
            self.merge = nn.ModuleList(block(2 * w, w) for w in reversed(widths[:-1]))
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x):
            levels = []
            for down in self.down:
                x = down(nn.functional.max_pool2d(x, 2) if levels else x)
                levels.append(x)
            for up, merge, level in zip(self.up, self.merge, reversed(levels[:-1])):
                x = merge(torch.cat([level, up(x)], 1))
            return (self.head(x),)

    return UNet()


def _yolo(width, repeats, classes):
    import torch
    from torch import nn

    class Conv(nn.Sequential):
        def __init__(self, inputs, outputs, kernel=1, stride=1):
            super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())

    class Split(nn.Module):
        """Half of the channels go through residual blocks, every result of which is kept."""

        def __init__(self, inputs, outputs, repeats, residual=True):
            super().__init__()
            half = outputs // 2
            self.open, self.close = Conv(inputs, outputs), Conv((2 + repeats) * half, outputs)
            self.blocks = nn.ModuleList(nn.Sequential(Conv(half, half, 3), Conv(half, half, 3)) for _ in range(repeats))
            self.residual = residual

        def forward(self, x):
            parts = list(self.open(x).chunk(2, 1))
            for block in self.blocks:
                result = block(parts[-1])
                parts.append(parts[-1] + result if self.residual else result)
            return self.close(torch.cat(parts, 1))

    class Pyramid(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.open, self.close = Conv(channels, channels // 2), Conv(2 * channels, channels)

        def forward(self, x):
            parts = [self.open(x)]
            for _ in range(3):
                parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
            return self.close(torch.cat(parts, 1))

    class Yolo(nn.Module):
        def __init__(self):
            super().__init__()
            w = [width, 2 * width, 4 * width, 8 * width, 16 * width]
            self.stem = nn.Sequential(Conv(3, w[0], 3, 2), Conv(w[0], w[1], 3, 2), Split(w[1], w[1], repeats))
            self.third = nn.Sequential(Conv(w[1], w[2], 3, 2), Split(w[2], w[2], 2 * repeats))
            self.fourth = nn.Sequential(Conv(w[2], w[3], 3, 2), Split(w[3], w[3], 2 * repeats))
            self.fifth = nn.Sequential(Conv(w[3], w[4], 3, 2), Split(w[4], w[4], repeats), Pyramid(w[4]))
            self.up_fourth = Split(w[4] + w[3], w[3], repeats, residual=False)
            self.up_third = Split(w[3] + w[2], w[2], repeats, residual=False)
            self.down_third, self.down_fourth = Conv(w[2], w[2], 3, 2), Conv(w[3], w[3], 3, 2)
            self.mid_fourth = Split(w[2] + w[3], w[3], repeats, residual=False)
            self.mid_fifth = Split(w[3] + w[4], w[4], repeats, residual=False)
            self.heads = nn.ModuleList(nn.Sequential(Conv(c, w[2], 3), Conv(w[2], w[2], 3), nn.Conv2d(w[2], classes, 1)) for c in w[2:])

        def forward(self, x):
            third = self.third(self.stem(x))
            fourth = self.fourth(third)
            fifth = self.fifth(fourth)
            up = nn.functional.interpolate
            fourth = self.up_fourth(torch.cat([up(fifth, scale_factor=2.0), fourth], 1))
            third = self.up_third(torch.cat([up(fourth, scale_factor=2.0), third], 1))
            fourth = self.mid_fourth(torch.cat([self.down_third(third), fourth], 1))
            fifth = self.mid_fifth(torch.cat([self.down_fourth(fourth), fifth], 1))
            return tuple(head(level) for head, level in zip(self.heads, (third, fourth, fifth)))

    return Yolo()


def _transformers(name, tiny):
    import transformers

    if name == "upernet":
        # The widths are a list also where they are the default, which is a tuple that ConvNextBackbone cannot add to one.
        backbone = dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]) if tiny else dict(hidden_sizes=[96, 192, 384, 768])
        config = transformers.UperNetConfig(
            backbone_config=transformers.ConvNextConfig(out_features=[f"stage{i}" for i in range(1, 5)], **backbone),
            hidden_size=32 if tiny else 512,
            auxiliary_in_channels=48 if tiny else 384,
            use_auxiliary_head=False,
            num_labels=150,
        )
        return transformers.UperNetForSemanticSegmentation(config)
    if name == "segformer-b0":
        return transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=150))
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_conv_pos_embedding_groups=4)
    return transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**(small if tiny else {})))


def build(name, tiny, wrap, randomise):
    """(module in eval mode, tuple of inputs); `wrap` and `randomise` are those of models.py."""
    import torch

    generator = torch.Generator().manual_seed(1)
    if name == "wav2vec2-base":
        inputs = (torch.randn(1, 4000 if tiny else 16000, generator=generator),)
    else:
        side = 64 if tiny else {"unet": 256, "yolo": 640}.get(name, 512)
        inputs = (torch.randn(1, 3, side, side, generator=generator),)
    if name == "unet":
        module = _unet(8, 3, 2) if tiny else _unet(64, 5, 2)
    elif name == "yolo":
        module = _yolo(8, 1, 20) if tiny else _yolo(32, 1, 144)
    else:
        module = wrap(_transformers(name, tiny), "waves" if name == "wav2vec2-base" else "image")
    randomise(module)
    return module.eval().requires_grad_(False), inputs
