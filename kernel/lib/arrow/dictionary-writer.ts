/**
 * Text as numbers in a dictionary of its column. The dictionary grows over the batches and is sent again, whole, before a batch that needs more of
 * it (clients that read replaced dictionaries outnumber those that read deltas); once it is large, the next batch begins a new one.
 */
import type { SqlVector } from '../sql-result/index.ts'
import { BatchParts, Presence } from './body.ts'
import { type ColumnWriter, Gathered, presentRows } from './column-writer.ts'
import { TextWriter } from './text-writer.ts'

const MAX_ENTRIES = 65_536

export class DictionaryWriter implements ColumnWriter {
  readonly id: number
  private readonly presence = new Presence()
  private readonly codes = new Gathered()
  private readonly known = new Map<string, number>()
  private entries: string[] = []
  private sent = 0
  private rows = 0
  private source: readonly string[] | undefined
  /** The number here of each entry of the vectors' dictionary, -1 for one not met yet. */
  private mapped = new Int32Array(0)

  constructor(id: number) {
    this.id = id
  }

  size(_: SqlVector, from: number, to: number): number {
    return 4 * (to - from)
  }

  append(vector: SqlVector, from: number, to: number): void {
    const { values, dictionary, bytes } = vector
    const present = presentRows(vector, from, to)
    this.presence.append(present, from, to - from)
    const codes = new Int32Array(this.codes.room(4 * (this.rows + to - from)).buffer)
    if (dictionary !== undefined && dictionary !== this.source) {
      this.source = dictionary
      this.mapped = new Int32Array(dictionary.length).fill(-1)
    }
    const text = bytes === undefined ? undefined : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    for (let i = from; i < to; i++) {
      let code = 0
      if (present === undefined || present[i] === 1) {
        if (dictionary !== undefined) {
          const number = values[i] as number
          code = this.mapped[number]
          if (code < 0) this.mapped[number] = code = this.codeOf(dictionary[number])
        } else if (text !== undefined) code = this.codeOf(text.toString('utf8', values[i] as number, values[i + 1] as number))
        else code = this.codeOf(String(values[i]))
      }
      codes[this.rows++] = code
    }
  }

  finish(parts: BatchParts): void {
    this.presence.finish(parts)
    parts.buffer(this.codes.bytes.subarray(0, 4 * this.rows))
  }

  reset(): void {
    this.presence.reset()
    this.rows = 0
    if (this.entries.length <= MAX_ENTRIES) return
    this.known.clear()
    this.mapped.fill(-1)
    this.entries = []
    this.sent = 0
  }

  /** What has to be sent before the batch; undefined when the receiver has it. */
  takeDictionary(): { rows: number; parts: BatchParts } | undefined {
    // A first batch without a value needs a dictionary too: readers ask for one of each column.
    if (this.sent === this.entries.length && this.sent > 0) return undefined
    if (this.entries.length === 0) this.codeOf('')
    this.sent = this.entries.length
    const writer = new TextWriter()
    writer.append({ values: this.entries }, 0, this.entries.length)
    const parts = new BatchParts()
    writer.finish(parts)
    return { rows: this.entries.length, parts }
  }

  private codeOf(text: string): number {
    let code = this.known.get(text)
    if (code === undefined) {
      code = this.entries.length
      this.known.set(text, code)
      this.entries.push(text)
    }
    return code
  }
}
