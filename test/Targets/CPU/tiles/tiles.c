/* The registers for tiles (AMX) and their instructions, as functions: what models compiled with
 * --cpu=NAME,+emulated-amx call (lib/Codegen/EmulateTiles.cpp). They compute what Intel's manual says
 * of each instruction, and end the process where the instruction would fault, where it reads what is
 * not there, and where tiles are configured twice in a row. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILES = 8, ROWS = 16, LINE = 64 };

typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t colsb[16];
  uint8_t rows[16];
} configuration;
_Static_assert(sizeof(configuration) == LINE, "as in memory");

static _Thread_local configuration config;
static _Thread_local uint8_t tiles[TILES][ROWS][LINE];

static void check(int holds, const char *what) {
  if (holds)
    return;
  fprintf(stderr, "emulated tiles: %s\n", what);
  abort();
}

/* A tile that the configuration has. */
static int use(int number) {
  number &= 0xff;
  check(config.palette == 1, "tiles without a configuration");
  check(number < TILES && config.rows[number] && config.colsb[number], "an invalid tile");
  return number;
}

void kiln_tile_ldtilecfg(const configuration *from) {
  check(config.palette == 0, "configured twice");
  config = *from;
  check(config.palette == 1 && config.start_row == 0, "another palette");
  for (size_t i = 0; i < sizeof config.reserved; ++i)
    check(!config.reserved[i], "a reserved byte is set");
  for (int i = 0; i < 16; ++i) {
    check(config.colsb[i] <= LINE && config.rows[i] <= ROWS, "a tile that is too large");
    check(i < TILES || (!config.colsb[i] && !config.rows[i]), "more tiles than there are");
  }
  memset(tiles, 0, sizeof tiles);
}

void kiln_tile_tilerelease(void) {
  check(config.palette == 1, "released without a configuration");
  memset(&config, 0, sizeof config);
}

void kiln_tile_tilezero(int number) {
  int tile = use(number);
  memset(tiles[tile], 0, sizeof tiles[tile]);
}

void kiln_tile_tileloadd64(int number, const char *base, int64_t stride) {
  int tile = use(number);
  memset(tiles[tile], 0, sizeof tiles[tile]);
  for (int row = 0; row < config.rows[tile]; ++row)
    memcpy(tiles[tile][row], base + row * stride, config.colsb[tile]);
}

void kiln_tile_tilestored64(int number, char *base, int64_t stride) {
  int tile = use(number);
  for (int row = 0; row < config.rows[tile]; ++row)
    memcpy(base + row * stride, tiles[tile][row], config.colsb[tile]);
}

/* Products fault on tiles that do not fit. */
static void check_product(int sums, int left, int right) {
  check(sums != left && sums != right && left != right, "a product of a tile with itself");
  check(config.rows[left] == config.rows[sums], "rows of the left operand and the sums");
  check(config.colsb[left] == 4 * config.rows[right], "steps of the sum");
  check(config.colsb[right] == config.colsb[sums], "columns of the right operand and the sums");
  check(config.colsb[left] % 4 == 0 && config.colsb[sums] % 4 == 0, "parts of words");
}

static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static float widen(const uint8_t *bytes) {
  uint32_t bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24;
  float x;
  memcpy(&x, &bits, sizeof x);
  return flush(x);
}

/* Even and odd steps are summed apart, in FMAs, and then together with what was there; denormals are
 * zero everywhere. */
void kiln_tile_tdpbf16ps(int to, int from, int with) {
  int sums = use(to), left = use(from), right = use(with);
  check_product(sums, left, right);
  for (int m = 0; m < config.rows[sums]; ++m)
    for (int n = 0; n < config.colsb[sums] / 4; ++n) {
      float part[2] = {0, 0}, sum;
      for (int k = 0; k < config.colsb[left] / 4; ++k)
        for (int i = 0; i < 2; ++i)
          part[i] = flush(fmaf(widen(&tiles[left][m][4 * k + 2 * i]),
                               widen(&tiles[right][k][4 * n + 2 * i]), part[i]));
      memcpy(&sum, &tiles[sums][m][4 * n], sizeof sum);
      sum = flush(flush(sum) + flush(part[0] + part[1]));
      memcpy(&tiles[sums][m][4 * n], &sum, sizeof sum);
    }
}

/* Unsigned bytes times signed ones; sums wrap around. */
void kiln_tile_tdpbusd(int to, int from, int with) {
  int sums = use(to), left = use(from), right = use(with);
  check_product(sums, left, right);
  for (int m = 0; m < config.rows[sums]; ++m)
    for (int n = 0; n < config.colsb[sums] / 4; ++n) {
      uint32_t sum;
      memcpy(&sum, &tiles[sums][m][4 * n], sizeof sum);
      for (int k = 0; k < config.colsb[left]; ++k)
        sum += (uint32_t)(tiles[left][m][k] * (int8_t)tiles[right][k / 4][4 * n + k % 4]);
      memcpy(&tiles[sums][m][4 * n], &sum, sizeof sum);
    }
}
