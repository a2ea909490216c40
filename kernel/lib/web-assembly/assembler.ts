/**
 * Just enough of WebAssembly's binary format (webassembly.github.io/spec/core/binary) for one function over imported memories. An expression is
 * its bytes, operands first; all numbers are i32, but for vectors of 16 bytes. Accesses name the memory by its place among the imports.
 */
/** An expression, as bytes. */
export type Code = readonly number[]

/** What a module is made of. */
export interface FunctionParts {
  /** Its only export; its parameters are the first locals. */
  name: string
  parameters: number
  locals: number
  memories: readonly MemoryImport[]
  body: readonly Code[]
}

/** A memory that the function works on. */
export interface MemoryImport {
  /** What the import is called, module and name. */
  name: readonly [string, string]
  /** Pages of 64 KiB that it may have at most, as it was made. */
  maxPages: number
  shared: boolean
}

const I32 = 0x7f
const EMPTY_BLOCK = 0x40
const END = 0x0b
const VECTOR = 0xfd
const BULK = 0xfc
const Section = { TYPE: 1, IMPORT: 2, FUNCTION: 3, EXPORT: 7, CODE: 10 } as const

export const get = (local: number): Code => [0x20, local]
export const set = (local: number, value: Code): Code => [...value, 0x21, local]
export const int = (value: number): Code => [0x41, ...signed(value)]

const binary =
  (opcode: number) =>
  (a: Code, b: Code): Code => [...a, ...b, opcode]
export const add: (a: Code, b: Code) => Code = binary(0x6a)
export const sub: (a: Code, b: Code) => Code = binary(0x6b)
export const and: (a: Code, b: Code) => Code = binary(0x71)
export const or: (a: Code, b: Code) => Code = binary(0x72)
export const shl: (a: Code, b: Code) => Code = binary(0x74)
/** Without the sign, as the comparisons. */
export const shr: (a: Code, b: Code) => Code = binary(0x76)
export const equal: (a: Code, b: Code) => Code = binary(0x46)
export const unequal: (a: Code, b: Code) => Code = binary(0x47)
export const below: (a: Code, b: Code) => Code = binary(0x49)
export const above: (a: Code, b: Code) => Code = binary(0x4b)
export const atLeast: (a: Code, b: Code) => Code = binary(0x4f)
/** Both are evaluated; no jump. */
export const choose = (a: Code, b: Code, first: Code): Code => [...a, ...b, ...first, 0x1b]

/** Alignment is not promised; the memory's number is only there for others than the first. */
const access = (offset: number, memory: number): Code => (memory === 0 ? [0, offset] : [0x40, memory, offset])

export const load8 = (at: Code, offset = 0, memory = 0): Code => [...at, 0x2d, ...access(offset, memory)]
export const load32 = (at: Code, offset = 0, memory = 0): Code => [...at, 0x28, ...access(offset, memory)]
export const store8 = (at: Code, value: Code): Code => [...at, ...value, 0x3a, ...access(0, 0)]
export const store32 = (at: Code, value: Code, offset = 0, memory = 0): Code => [...at, ...value, 0x36, ...access(offset, memory)]
export const load16Bytes = (at: Code, offset = 0, memory = 0): Code => [...at, VECTOR, 0, ...access(offset, memory)]
/** 16 bytes, read whole before they are written. */
export const move16 = (to: Code, from: Code, offset: number): Code => [...to, ...load16Bytes(from, offset), VECTOR, 11, ...access(offset, 0)]
export const moveMany = (to: Code, from: Code, size: Code): Code => [...to, ...from, ...size, BULK, 10, 0, 0]
/** Of two vectors, their bits. */
export const differences = (a: Code, b: Code): Code => [...a, ...b, VECTOR, 0x51]
export const either = (a: Code, b: Code): Code => [...a, ...b, VECTOR, 0x50]
/** Whether any bit of a vector is set. */
export const any = (vector: Code): Code => [...vector, VECTOR, 0x53]

export const when = (condition: Code, then: readonly Code[], otherwise: readonly Code[] = []): Code => [
  ...condition,
  0x04,
  EMPTY_BLOCK,
  ...then.flat(),
  ...(otherwise.length === 0 ? [] : [0x05, ...otherwise.flat()]),
  END,
]
export const loop = (...body: Code[]): Code => [0x03, EMPTY_BLOCK, ...body.flat(), END]
/** To the beginning of the loop around so many blocks. */
export const again = (blocks: number): Code => [0x0c, blocks]
export const againIf = (condition: Code): Code => [...condition, 0x0d, 0]
export const give = (value: Code): Code => [...value, 0x0f]

/** The bytes of a module. */
export function moduleOf({ name, parameters, locals, memories, body }: FunctionParts): Uint8Array<ArrayBuffer> {
  const code = [1, ...unsigned(locals), I32, ...body.flat(), END]
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(Section.TYPE, [1, 0x60, parameters, ...new Array<number>(parameters).fill(I32), 1, I32]),
    ...section(Section.IMPORT, [memories.length, ...memories.flatMap(importOf)]),
    ...section(Section.FUNCTION, [1, 0]),
    ...section(Section.EXPORT, [1, ...text(name), 0, 0]),
    ...section(Section.CODE, [1, ...unsigned(code.length), ...code]),
  ])
}

const importOf = ({ name, maxPages, shared }: MemoryImport): number[] => [...name.flatMap(text), 2, shared ? 3 : 1, ...unsigned(1), ...unsigned(maxPages)]

const section = (id: number, body: Code): Code => [id, ...unsigned(body.length), ...body]

const text = (ascii: string): number[] => [ascii.length, ...Buffer.from(ascii, 'latin1')]

/** LEB128. */
function unsigned(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return [...bytes, rest]
}

function signed(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  // The last byte's second bit is the sign.
  for (; rest < -0x40 || rest >= 0x40; rest >>= 7) bytes.push((rest & 0x7f) | 0x80)
  return [...bytes, rest & 0x7f]
}
