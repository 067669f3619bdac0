/*===- weights_file.h - The file of external weights ------------------------===*
 *
 * It has the name of the shared object with KILN_RT_WEIGHTS_SUFFIX appended, and
 * the format of safetensors: 8 bytes with the length of the header (little-endian), the
 * header, and the blob, which is all the rest. The header is JSON that begins with
 * KILN_RT_WEIGHTS_BEGIN, 16 hexadecimal digits and a quotation mark, and ends with as many spaces
 * as the blob needs to begin at a multiple of KILN_RT_WEIGHTS_ALIGN bytes.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_WEIGHTS_FILE_H
#define KILN_RUNTIME_WEIGHTS_FILE_H

#define KILN_RT_WEIGHTS_SUFFIX ".safetensors"
#define KILN_RT_WEIGHTS_BEGIN "{\"__metadata__\":{\"kiln.hash\":\""
#define KILN_RT_WEIGHTS_ALIGN 4096

#endif /* KILN_RUNTIME_WEIGHTS_FILE_H */
