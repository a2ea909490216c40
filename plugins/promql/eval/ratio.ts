/** Where a series lies in [0, 1) for limit_ratio: its hash (XXH64) as a part of all hashes, the same in every server that does so. */
import type { Labels } from '../labels.ts'

const LONG = 255
const ALL_HASHES = 2 ** 64

export function sampleOffset(labels: Labels): number {
  return Number(xxh64(encode(labels))) / ALL_HASHES
}

/** Names and values in order, each after its length: one byte, or 255 and three bytes. */
function encode({ pairs }: Labels): Uint8Array {
  const parts: Uint8Array[] = []
  for (const text of pairs) {
    const bytes = Buffer.from(text)
    const { length } = bytes
    parts.push(Uint8Array.from(length < LONG ? [length] : [LONG, length & 0xff, (length >> 8) & 0xff, length >> 16]), bytes)
  }
  return Buffer.concat(parts)
}

const P1 = 0x9e3779b185ebca87n
const P2 = 0xc2b2ae3d27d4eb4fn
const P3 = 0x165667b19e3779f9n
const P4 = 0x85ebca77c2b2ae63n
const P5 = 0x27d4eb2f165667c5n

const wrap = (x: bigint): bigint => BigInt.asUintN(64, x)
const rotate = (x: bigint, bits: bigint): bigint => wrap((x << bits) | (x >> (64n - bits)))
const round = (lane: bigint, input: bigint): bigint => wrap(rotate(wrap(lane + wrap(input * P2)), 31n) * P1)
const merge = (hash: bigint, lane: bigint): bigint => wrap((hash ^ round(0n, lane)) * P1 + P4)

/** XXH64 with seed 0, as its specification has it. */
export function xxh64(bytes: Uint8Array): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const { byteLength } = bytes
  let at = 0
  let hash = P5
  if (byteLength >= 32) {
    const lanes = [wrap(P1 + P2), P2, 0n, wrap(-P1)]
    for (; at + 32 <= byteLength; at += 32) for (let i = 0; i < 4; i++) lanes[i] = round(lanes[i], view.getBigUint64(at + 8 * i, true))
    hash = wrap(rotate(lanes[0], 1n) + rotate(lanes[1], 7n) + rotate(lanes[2], 12n) + rotate(lanes[3], 18n))
    for (const lane of lanes) hash = merge(hash, lane)
  }
  hash = wrap(hash + BigInt(byteLength))
  for (; at + 8 <= byteLength; at += 8) hash = wrap(rotate(hash ^ round(0n, view.getBigUint64(at, true)), 27n) * P1 + P4)
  if (at + 4 <= byteLength) {
    hash = wrap(rotate(hash ^ wrap(BigInt(view.getUint32(at, true)) * P1), 23n) * P2 + P3)
    at += 4
  }
  for (; at < byteLength; at++) hash = wrap(rotate(hash ^ wrap(BigInt(bytes[at]) * P5), 11n) * P1)
  hash = wrap((hash ^ (hash >> 33n)) * P2)
  hash = wrap((hash ^ (hash >> 29n)) * P3)
  return hash ^ (hash >> 32n)
}
