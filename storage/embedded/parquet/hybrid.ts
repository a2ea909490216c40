/** Runs and bit-packed groups in turns, as definition levels, dictionary codes and booleans come. Format: parquet-format Encodings.md, "RLE / bit-packing hybrid". */
import { PageFault } from './page-fault.ts'

/** Decodes `count` numbers of `width` bits, at most 32, into out[first ...]. @throws PageFault */
export function decodeHybrid(bytes: Uint8Array, from: number, to: number, width: number, out: Int32Array | Uint8Array, first: number, count: number): void {
  if (width > 32) throw new PageFault(`a page has codes of ${width} bits`)
  const end = first + count
  const mask = width === 32 ? -1 : (1 << width) - 1
  const valueBytes = (width + 7) >> 3
  let at = from
  let n = first
  while (n < end) {
    let head = 0
    for (let shift = 0, byte = 128; byte > 127; shift += 7) {
      if (at >= to || shift > 28) throw new PageFault('a page ends early')
      byte = bytes[at++]
      head |= (byte & 127) << shift
    }
    if ((head & 1) === 0) {
      const run = head >>> 1
      if (run === 0 || at + valueBytes > to) throw new PageFault('a page ends early')
      let value = 0
      for (let i = 0; i < valueBytes; i++) value |= bytes[at++] << (i * 8)
      const stop = Math.min(end, n + run)
      out.fill(value & mask, n, stop)
      n = stop
      continue
    }
    const values = Math.min((head >>> 1) * 8, end - n)
    if (values <= 0 || at + ((values * width + 7) >> 3) > to) throw new PageFault('a page ends early')
    if (width === 1) for (let i = 0; i < values; i++) out[n++] = (bytes[at + (i >> 3)] >> (i & 7)) & 1
    else unpack(bytes, at, width, mask, out, n, values)
    if (width !== 1) n += values
    at += (head >>> 1) * width
  }
}

function unpack(bytes: Uint8Array, at: number, width: number, mask: number, out: Int32Array | Uint8Array, first: number, count: number): void {
  let bits = 0
  let held = 0
  let next = at
  for (let i = 0; i < count; i++) {
    // 24 bits and a byte more fit; wider ones take their last bits from the byte after.
    while (held < width && held <= 24) {
      bits |= bytes[next++] << held
      held += 8
    }
    if (held >= width) {
      out[first + i] = bits & mask
      bits = width === 32 ? 0 : bits >>> width
      held -= width
    } else {
      const more = bytes[next++]
      out[first + i] = (bits | (more << held)) & mask
      const used = width - held
      bits = more >>> used
      held = 8 - used
    }
  }
}
