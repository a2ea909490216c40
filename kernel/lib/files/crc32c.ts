/** CRC-32C (Castagnoli, RFC 3720 appendix B.4), eight bytes a step. */
const POLYNOMIAL = 0x82f63b78
const TABLES = new Int32Array(8 * 256)
for (let i = 0; i < 256; i++) {
  let crc = i
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1
  TABLES[i] = crc
}
for (let i = 0; i < 256; i++) for (let t = 1; t < 8; t++) TABLES[t * 256 + i] = (TABLES[(t - 1) * 256 + i] >>> 8) ^ TABLES[TABLES[(t - 1) * 256 + i] & 0xff]

/** @param before the checksum of what comes before these bytes, to carry on from. */
export function crc32c(bytes: Uint8Array, start: number, end: number, before = 0): number {
  let crc = ~before
  let i = start
  for (const last = end - 8; i <= last; i += 8) {
    crc ^= bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24)
    crc =
      TABLES[1792 + (crc & 0xff)] ^
      TABLES[1536 + ((crc >>> 8) & 0xff)] ^
      TABLES[1280 + ((crc >>> 16) & 0xff)] ^
      TABLES[1024 + (crc >>> 24)] ^
      TABLES[768 + bytes[i + 4]] ^
      TABLES[512 + bytes[i + 5]] ^
      TABLES[256 + bytes[i + 6]] ^
      TABLES[bytes[i + 7]]
  }
  for (; i < end; i++) crc = (crc >>> 8) ^ TABLES[(crc ^ bytes[i]) & 0xff]
  return ~crc >>> 0
}
