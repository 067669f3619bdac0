/*===- old-driver.c - A libcuda.so.1 that lacks most functions --------------===*/
int cuInit(unsigned flags) { return (int)flags; }

int cuDriverGetVersion(int *version) {
  *version = 11020;
  return 0;
}
