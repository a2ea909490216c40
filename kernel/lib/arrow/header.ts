/**
 * Headers of record batches and dictionary batches: flatbuffers (Message.fbs, metadata V5) of one fixed shape, so that they are laid out by hand.
 * A message is [root offset][vtable, Message][vtable, DictionaryBatch]?[vtable, RecordBatch][nodes][buffers]; every part starts where its
 * alignment asks for.
 */

const RECORD_BATCH = 3
const DICTIONARY_BATCH = 2
const V5 = 4

const MESSAGE = 16
const NODE = 16
const BUFFER = 16

/** Nodes and buffers of a batch, as pairs: (length, nulls) and (offset, length). */
export interface BatchShape {
  rows: number
  nodes: readonly number[]
  buffers: readonly number[]
  bodyLength: number
}

export function recordBatchHeader(shape: BatchShape): Uint8Array {
  const at = 48
  const view = message(at + batchSize(shape), RECORD_BATCH, at, shape.bodyLength)
  writeBatch(view, 36, at, shape)
  return new Uint8Array(view.buffer)
}

/** Replaces the dictionary of that number. */
export function dictionaryBatchHeader(id: number, shape: BatchShape): Uint8Array {
  const dictionary = 48
  const at = 80
  const view = message(at + batchSize(shape), DICTIONARY_BATCH, dictionary, shape.bodyLength)
  vtable(view, 36, [16, 8, 4]) // id, data; isDelta is left out: false
  view.setInt32(dictionary, dictionary - 36, true)
  reference(view, dictionary + 4, at)
  view.setBigInt64(dictionary + 8, BigInt(id), true)
  writeBatch(view, 68, at, shape)
  return new Uint8Array(view.buffer)
}

function message(size: number, kind: number, header: number, bodyLength: number): DataView {
  const view = new DataView(new ArrayBuffer(size))
  view.setUint32(0, MESSAGE, true)
  vtable(view, 4, [20, 16, 18, 4, 8]) // version, header type, header, body length
  view.setInt32(MESSAGE, MESSAGE - 4, true)
  reference(view, MESSAGE + 4, header)
  view.setBigInt64(MESSAGE + 8, BigInt(bodyLength), true)
  view.setInt16(MESSAGE + 16, V5, true)
  view.setUint8(MESSAGE + 18, kind)
  return view
}

/** The size of a RecordBatch from its table on: 20 bytes, then two vectors whose elements are aligned to 8. */
function batchSize({ nodes, buffers }: BatchShape): number {
  return 24 + (nodes.length / 2) * NODE + 8 + (buffers.length / 2) * BUFFER
}

function writeBatch(view: DataView, table: number, at: number, { rows, nodes, buffers }: BatchShape): void {
  vtable(view, table, [20, 8, 4, 16]) // length, nodes, buffers
  view.setInt32(at, at - table, true)
  view.setBigInt64(at + 8, BigInt(rows), true)
  const nodesAt = at + 20
  reference(view, at + 4, nodesAt)
  pairs(view, nodesAt, nodes)
  const buffersAt = nodesAt + 4 + (nodes.length / 2) * NODE + 4
  reference(view, at + 16, buffersAt)
  pairs(view, buffersAt, buffers)
}

function vtable(view: DataView, at: number, [tableSize, ...fields]: readonly number[]): void {
  view.setUint16(at, 4 + 2 * fields.length, true)
  view.setUint16(at + 2, tableSize, true)
  fields.forEach((offset, i) => {
    view.setUint16(at + 4 + 2 * i, offset, true)
  })
}

function reference(view: DataView, at: number, target: number): void {
  view.setUint32(at, target - at, true)
}

function pairs(view: DataView, at: number, values: readonly number[]): void {
  view.setUint32(at, values.length / 2, true)
  for (let i = 0; i < values.length; i++) view.setBigInt64(at + 4 + 8 * i, BigInt(values[i]), true)
}
