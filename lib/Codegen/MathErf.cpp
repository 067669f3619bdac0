// The error function and its complement.
#include "MathBuilder.h"

using namespace mlir;
using namespace kiln::codegen;

/// Of f32 where the CPU looks up in tables: with s = min(t, 1), erf(t) = s + s * P(t), P a polynomial of degree 4 in each of
/// 32 pieces. Piece j is within half a step of j / pieceRate: t = 1 ends piece 7. From the highest power of
/// pieceRate * t - j on; minimax for the relative error of erf, the lower coefficients fitted again after each that is
/// rounded. 0.77 ulp, most of which are the last rounding's, since |P| < 0.16.
static constexpr double pieceRate = 7.5, lastPiece = 4.15;
static constexpr float pieces[5][32] = {
    {3.50983864e-05F,  3.34043616e-05F,  2.69703087e-05F,  1.78213668e-05F,  7.56243526e-06F,
     -2.38596385e-06F, -1.05601493e-05F, -1.61498392e-05F, 1.4940958e-05F,   2.10587859e-06F,
     -7.32198623e-06F, -1.31111055e-05F, -1.55510133e-05F, -1.53492274e-05F, -1.34845177e-05F,
     -1.08763343e-05F, -8.16878219e-06F, -5.75972354e-06F, -3.83749102e-06F, -2.42330975e-06F,
     -1.45670538e-06F, -8.34259197e-07F, -4.56424061e-07F, -2.38714961e-07F, -1.19546783e-07F,
     -5.73557131e-08F, -2.63894275e-08F, -1.16499645e-08F, -4.93707653e-09F, -2.00946593e-09F,
     -7.85895571e-10F, -2.95426017e-10F},
    {5.54133294e-07F, 0.000139384007F, 0.000261559151F, 0.000352522067F, 0.000403865968F,
     0.000413865433F, 0.000387018954F, 0.000332407537F, 0.000363643048F, 0.000396413903F,
     0.000384604413F, 0.000342312909F, 0.000283901172F, 0.000221423456F, 0.000163366014F,
     0.000114478782F, 7.64115612e-05F, 4.86856443e-05F, 2.96587878e-05F, 1.7297376e-05F,
     9.66767766e-06F, 5.18259094e-06F, 2.66656343e-06F, 1.3176126e-06F,  6.25556879e-07F,
     2.85476773e-07F, 1.25272791e-07F, 5.28760609e-08F, 2.14731841e-08F, 8.39214476e-09F,
     3.15705662e-09F, 1.14342003e-09F},
    {-0.00668688538F,  -0.00647496944F,  -0.00586605165F,  -0.0049340548F,   -0.00378713012F,
     -0.00254863594F,  -0.00133754069F,  -0.000251766149F, -0.00685858587F,  -0.00570336031F,
     -0.00452058576F,  -0.00342334667F,  -0.00248118537F,  -0.00172345934F,  -0.00114848686F,
     -0.000734829053F, -0.00045171997F,  -0.000266938558F, -0.000151706758F, -8.29500059e-05F,
     -4.36494047e-05F, -2.21112805e-05F, -1.07849901e-05F, -5.06625474e-06F, -2.29239276e-06F,
     -9.99298322e-07F, -4.19722994e-07F, -1.69881091e-07F, -6.62657769e-08F, -2.49136338e-08F,
     -9.02869779e-09F, -3.15419002e-09F},
    {2.60399169e-08F, -0.0132316174F,  -0.0256339945F,  -0.0364798233F,  -0.0452267751F,
     -0.0515674688F,  -0.0554400422F,  -0.0570018217F,  0.0482240506F,   0.035645958F,
     0.0254281778F,   0.0175056607F,   0.0116305444F,   0.00745727029F,  0.00461442862F,
     0.00275558722F,  0.00158806611F,  0.000883244735F, 0.000474080007F, 0.000245572766F,
     0.000122762794F, 5.92258366e-05F, 2.75748716e-05F, 1.23900654e-05F, 5.37268579e-06F,
     2.24836572e-06F, 9.08029676e-07F, 3.53908234e-07F, 1.33118604e-07F, 4.8321926e-08F,
     1.69280518e-08F, 5.72304204e-09F},
    {0.128379166F,     0.121727988F,     0.102193467F,     0.0709808841F,    0.0299360361F,
     -0.0186678786F,   -0.0723737925F,   -0.128775895F,    -0.131428018F,    -0.0896860212F,
     -0.0593464375F,   -0.038062606F,    -0.0236516166F,   -0.0142339878F,   -0.00829389784F,
     -0.0046777348F,   -0.00255299127F,  -0.00134804274F,  -0.000688513916F, -0.00034009447F,
     -0.000162440861F, -7.50132021e-05F, -3.34865908e-05F, -1.44492169e-05F, -6.02576301e-06F,
     -2.42846841e-06F, -9.45731131e-07F, -3.5586325e-07F,  -1.29374058e-07F, -4.54392257e-08F,
     -1.54172799e-08F, -5.05304598e-09F}};

static Value erfByPieces(const MathBuilder &m, Value x) {
  Value t = m.abs(x), last = m.c(lastPiece), one = m.c(1);
  t = m.select(m.gt(t, last), last, t);
  Value shifted = m.fma(t, m.c(pieceRate), m.c(m.roundingMagic()));
  Value r = m.fma(t, m.c(pieceRate), m.sub(m.c(m.roundingMagic()), shifted));
  Value piece = m.bits(shifted), p = m.lookUp(pieces[0], piece);
  for (ArrayRef<float> coefficients : ArrayRef(pieces).drop_front())
    p = m.fma(p, r, m.lookUp(coefficients, piece));
  Value s = m.select(m.gt(t, one), one, t);
  return m.copysign(m.fma(s, p, s), x);
}

/// exp(x^2) * erfc(x), 0.84 <= x <= 28: a polynomial in (x-4)/(x+4), over 1 + 2x.
static Value scaledErfc(const MathBuilder &m, Value x) {
  Value t = m.div(m.sub(x, m.c(4)), m.add(x, m.c(4)));
  Value p = m.poly(t, {6.229444678537811e-08,   4.3553870830173186e-08, -7.582477269324604e-07,
                       3.184411295879484e-07,   5.659530454152595e-06,  -1.123302957947256e-05,
                       -2.4377021899648958e-05, 0.00015062467782752406, -0.00019926274420049308,
                       -0.0007577738051059754,  0.005031970995456518,   -0.016197734001749845,
                       0.03716751543568189,     -0.0663303658159257,    0.09373283500391086,
                       -0.1010390660361689,     0.06809705425455394,    0.015379652102617635,
                       -0.1396211168405615,     1.2329951186255526});
  return m.div(p, m.fma(m.c(2), x, m.c(1)));
}

/// erf(x), |x| <= 1.
static Value smallErf(const MathBuilder &m, Value x) {
  Value p =
      m.poly(m.mul(x, x), {-7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07,
                           1.6447424703317362e-06, -1.492473690741966e-05, 0.00012055294904839707,
                           -0.0008548325975389692, 0.0052239776071164225, -0.02686617064323777,
                           0.11283791670945006, -0.37612638903183543, 1.1283791670955126});
  return m.mul(p, x);
}

/// erfc(x), 0.84 <= x.
static Value largeErfc(const MathBuilder &m, Value x) {
  Value bounded = m.clamp(x, 0.84, 28);
  // exp(-(h + l)) = exp(-h) * (1 - l), for the square and its error.
  Value high = m.mul(bounded, bounded);
  Value low = m.fma(bounded, bounded, m.neg(high));
  Value e = expandExp(m, m.neg(high));
  e = m.fma(m.neg(low), e, e);
  return m.mul(e, scaledErfc(m, bounded));
}

Value kiln::codegen::expandErf(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  if (m.isF64()) {
    Value large = m.sub(m.c(1), largeErfc(m, t));
    Value result = m.select(m.gt(t, m.c(1)), m.copysign(large, x), smallErf(m, x));
    return result;
  }
  if (m.has.tables)
    return erfByPieces(m, x);
  // Minimax, 1 ulp: x*P(x^2), or 1 - exp(Q(|x|)).
  Value s = m.mul(x, x);
  Value r = m.fma(m.c(-1.72853470e-5), t, m.c(3.83197126e-4));
  Value u = m.fma(m.c(-3.88396438e-3), t, m.c(2.42546219e-2));
  r = m.fma(r, s, u);
  r = m.fma(r, t, m.c(-1.06777877e-1));
  r = m.fma(r, t, m.c(-6.34846687e-1));
  r = m.fma(r, t, m.c(-1.28717512e-1));
  r = m.fma(r, t, m.neg(t));
  Value large = m.copysign(m.sub(m.c(1), expandExp(m, r)), x);
  Value small = m.poly(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                           -3.76125336e-1, 1.28379166e-1});
  small = m.fma(small, x, x);
  return m.select(m.gt(t, m.c(0.927734375)), large, small);
}

Value kiln::codegen::expandErfc(const MathBuilder &m, Value x) {
  Value t = m.abs(x);
  Value large = largeErfc(m, t);
  large = m.select(m.lt(x, m.c(0)), m.sub(m.c(2), large), large);
  large = m.select(m.gt(x, m.c(27.5)), m.c(0), large);
  Value small = m.sub(m.c(1), smallErf(m, x));
  return m.select(m.gt(t, m.c(0.84)), large, small);
}
