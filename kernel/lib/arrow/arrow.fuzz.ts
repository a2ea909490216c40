/**
 * Damaged messages: each is refused with BAD_REQUEST, or makes a batch whose arrays are as long as it says and whose offsets stay inside.
 * node kernel/lib/arrow/arrow.fuzz.ts [seconds] [seed]
 */
import { readdirSync, readFileSync } from 'node:fs'
import { type Data, type DenseUnion, Type } from 'apache-arrow'
import { SvcError } from '../errors/index.ts'
import { type Random, seeded } from '../random/index.ts'
import type { ArrowMessage } from './framing.ts'
import { ArrowReader } from './reader.ts'
import { messagesOf } from './testing.ts'

const seconds = Number(process.argv[2] ?? 10)
const seed = Number(process.argv[3] ?? Date.now() % 1e9)
const TEXT = new Set<number>([Type.Utf8, Type.Binary])
const INTERESTING = [0, 1, 2, 7, 8, 127, 128, 255, 65_535, 2 ** 31 - 1, -1, -2, -8, -(2 ** 31)]

const CASES = new URL('testcases/', import.meta.url)
const streams = readdirSync(CASES).map((name) => messagesOf(readFileSync(new URL(name, CASES))))

function corrupted(random: Random, bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes)
  if (random() < 0.05) return copy.subarray(0, Math.floor(random() * copy.length))
  const view = new DataView(copy.buffer)
  for (let changes = 1 + Math.floor(random() * 3); changes > 0 && copy.length >= 8; changes--) {
    const at = Math.floor(random() * (copy.length - 7))
    const shape = random()
    if (shape < 0.3) copy[at] ^= 1 << Math.floor(random() * 8)
    else if (shape < 0.5) copy[at] = Math.floor(random() * 256)
    else if (shape < 0.6) view.setUint16(at & ~1, Math.floor(random() * 64), true)
    else {
      const value = random() < 0.5 ? INTERESTING[Math.floor(random() * INTERESTING.length)] : Math.floor(random() * 2 * copy.length)
      if (shape < 0.8) view.setInt32(at & ~3, value, true)
      else view.setBigInt64(at & ~7, BigInt(value), true)
    }
  }
  return copy
}

function corruption(random: Random, message: ArrowMessage): ArrowMessage {
  const which = random()
  return { header: which < 0.6 ? corrupted(random, message.header) : message.header, body: which > 0.5 ? corrupted(random, message.body) : message.body }
}

function check(data: Data): void {
  const { length, values, valueOffsets, nullBitmap } = data
  const need = (ok: boolean, what: string): void => {
    if (!ok) throw new Error(`${data.type} of ${length}: ${what}`)
  }
  const isUnion = data.typeId === Type.Union
  // Of a union the library counts those of all members.
  if (!isUnion) need(data.nullCount >= 0 && data.nullCount <= length, 'nulls')
  if (data.nullCount > 0 && data.typeId !== Type.Null && !isUnion) need(nullBitmap.length * 8 >= length, 'bitmap')
  if (isUnion) {
    const { typeIdToChildIndex } = data.type as DenseUnion
    const inside = (i: number): boolean => valueOffsets[i] >= 0 && valueOffsets[i] < (data.children[typeIdToChildIndex[data.typeIds[i]]]?.length ?? 0)
    for (let i = 0; i < length; i++) need(inside(i), 'members of a union')
  } else if (valueOffsets !== undefined) {
    need(valueOffsets.length > length || length === 0, 'offsets')
    for (let i = 0; i < length; i++) need(valueOffsets[i] >= 0 && valueOffsets[i] <= valueOffsets[i + 1], 'offsets ascend')
    const inside = TEXT.has(data.typeId) ? values.length : data.children[0].length
    need(length === 0 || valueOffsets[length] <= inside, 'offsets inside')
  } else if (data.typeId === Type.Bool) need(values.length * 8 >= length, 'bits')
  else if (data.typeId === Type.Struct) for (const child of data.children) need(child.length >= length, 'members')
  else if (data.typeId === Type.FixedSizeList) need(data.children[0].length >= length * data.stride, 'items')
  else if (data.typeId !== Type.Null) need(values.length >= length * data.stride, 'values')
  if (data.dictionary !== undefined) {
    for (let i = 0; i < length; i++) if (data.getValid(i)) need(Number(values[i]) >= 0 && Number(values[i]) < data.dictionary.length, 'index')
  }
  for (const child of data.children) check(child)
}

const random = seeded(seed)
const until = performance.now() + seconds * 1000
const outcomes = { batches: 0, refused: 0 }
const causes = new Set<string>()
while (performance.now() < until) {
  const stream = streams[Math.floor(random() * streams.length)]
  const target = Math.floor(random() * stream.length)
  const began = performance.now()
  try {
    const messages = stream.map((message, i) => (i === target ? corruption(random, message) : message))
    const reader = new ArrowReader(messages[0].header, { maxBytes: 1 << 22 })
    for (const { header, body } of messages.slice(1)) {
      const batch = await reader.read(header, body)
      if (batch !== undefined) for (const child of batch.data.children) check(child)
    }
    outcomes.batches++
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'BAD_REQUEST') {
      console.error(`seed ${seed}`)
      throw error
    }
    outcomes.refused++
    causes.add(error.message.replace(/-?\d+/g, 'N').replace(/"[^"]*"/g, '"x"'))
  }
  if (performance.now() - began > 1000) throw new Error(`seed ${seed}: a message took ${Math.round(performance.now() - began)} ms`)
}
console.log(`seed ${seed}: ${outcomes.batches} read, ${outcomes.refused} refused for ${causes.size} reasons`)
