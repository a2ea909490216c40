/** Floats as an XOR chunk (Prometheus' chunk format description, "XOR chunk data"). */
import { BitWriter, XorValue } from './bit-writer.ts'

export const XOR_ENCODING = 1
/** Samples of a chunk: what Prometheus itself aims at. */
export const CHUNK_SAMPLES = 120
const NAN_HIGH = 0x7ff80000
const STALE_HIGH = 0x7ff00000
const scratch = new Float64Array(1)
const halves = new Int32Array(scratch.buffer)
const out = new BitWriter()

/**
 * @param stale says of a sample whether it is a staleness marker.
 * @returns the chunk of samples [from, to), at most 65,535.
 */
export function floatChunk(times: Float64Array, values: Float64Array, stale: (at: number) => boolean, from: number, to: number): Uint8Array {
  const count = to - from
  const value = new XorValue()
  out.bits(count, 16)
  let delta = 0
  for (let at = from; at < to; at++) {
    const place = at - from
    const newDelta = place === 0 ? 0 : times[at] - times[at - 1]
    if (place === 0) out.varint(times[at])
    else if (place === 1) out.uvarint(newDelta)
    else timestamp(newDelta - delta)
    delta = newDelta
    scratch[0] = values[at]
    let high = halves[1]
    let low = halves[0]
    // The engine may change the bits of a NaN, so they are chosen here: the ones that Prometheus knows.
    if (stale(at)) [high, low] = [STALE_HIGH, 2]
    else if (Number.isNaN(values[at])) [high, low] = [NAN_HIGH, 1]
    if (place === 0) value.firstBits(out, high, low)
    else value.nextBits(out, high, low)
  }
  return out.take()
}

/** What the distance to the next sample changes by. */
function timestamp(change: number): void {
  if (change === 0) out.bits(0, 1)
  else if (fits(change, 14)) {
    out.bits(0b10, 2)
    out.bits(change, 14)
  } else if (fits(change, 17)) {
    out.bits(0b110, 3)
    out.bits(change, 17)
  } else if (fits(change, 20)) {
    out.bits(0b1110, 4)
    out.bits(change, 20)
  } else {
    out.bits(0b1111, 4)
    out.integer(change, 64)
  }
}

function fits(value: number, bits: number): boolean {
  return value >= 1 - 2 ** (bits - 1) && value <= 2 ** (bits - 1)
}
