/** Reads blocks of ClickHouse's format Native as they come. Values of a fixed width stay as they are; texts are cut out. */

export interface ReadColumn {
  name: string
  type: string
  /** A byte a row, 1 = NULL; absent when the type is not Nullable. */
  nulls?: Uint8Array
  /** Of types of a fixed width: the values, aligned to 16 bytes. */
  bytes: Uint8Array
  /** Of String. */
  texts?: Uint8Array[]
  /** Of Array(String). */
  lists?: Uint8Array[][]
  /** Of other arrays: where each ends among the items. */
  ends?: BigUint64Array
  items?: ReadColumn
}

export interface ReadBlock {
  rows: number
  columns: ReadColumn[]
}

const decoder = new TextDecoder()
const WIDTHS: Record<string, number> = {
  ...{ UInt8: 1, Int8: 1, Bool: 1, UInt16: 2, Int16: 2, UInt32: 4, Int32: 4, Float32: 4 },
  ...{ UInt64: 8, Int64: 8, Float64: 8, UInt128: 16, Int128: 16 },
}

/** @throws Error for an answer that ends within a block, or a type that no statement of this engine asks for. */
export async function* decodeBlocks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ReadBlock> {
  const input = new Input(chunks[Symbol.asyncIterator]())
  try {
    while (await input.more()) {
      const columns = await input.varint()
      const rows = await input.varint()
      const block: ReadBlock = { rows, columns: [] }
      for (let i = 0; i < columns; i++) block.columns.push(await columnOf(input, rows))
      if (rows > 0) yield block
    }
  } finally {
    await input.close()
  }
}

async function columnOf(input: Input, rows: number): Promise<ReadColumn> {
  const name = decoder.decode(await input.text())
  return typedColumn(input, name, decoder.decode(await input.text()), rows)
}

async function typedColumn(input: Input, name: string, type: string, rows: number): Promise<ReadColumn> {
  const inner = /^Nullable\((.*)\)$/.exec(type)?.[1]
  const nulls = inner === undefined ? undefined : await input.take(rows)
  return { name, type, ...(nulls === undefined ? {} : { nulls }), ...(await valuesOf(input, inner ?? type, rows)) }
}

async function valuesOf(input: Input, type: string, rows: number): Promise<Omit<ReadColumn, 'name' | 'type'>> {
  const width = type.startsWith('Decimal(') ? 16 : type.startsWith('DateTime64(') ? 8 : WIDTHS[type]
  if (width !== undefined) return { bytes: await input.take(rows * width) }
  if (type === 'String') return { bytes: NONE, texts: await textsOf(input, rows) }
  if (type === 'Array(String)') {
    const ends = new BigUint64Array((await input.take(rows * 8)).buffer, 0, rows)
    const texts = await textsOf(input, rows === 0 ? 0 : Number(ends[rows - 1]))
    return { bytes: NONE, lists: Array.from(ends, (end, i) => texts.slice(i === 0 ? 0 : Number(ends[i - 1]), Number(end))) }
  }
  const item = /^Array\((.*)\)$/.exec(type)?.[1]
  if (item !== undefined) {
    const ends = new BigUint64Array((await input.take(rows * 8)).buffer, 0, rows)
    return { bytes: NONE, ends, items: await typedColumn(input, '', item, rows === 0 ? 0 : Number(ends[rows - 1])) }
  }
  throw new Error(`cannot read an answer of ClickHouse: type "${type}" is unknown`)
}

async function textsOf(input: Input, count: number): Promise<Uint8Array[]> {
  const texts: Uint8Array[] = []
  for (let i = 0; i < count; i++) texts.push(input.textAtHand() ?? (await input.text()))
  return texts
}

const NONE = new Uint8Array(0)

class Input {
  private readonly chunks: AsyncIterator<Uint8Array>
  private bytes: Uint8Array = NONE
  private at = 0

  constructor(chunks: AsyncIterator<Uint8Array>) {
    this.chunks = chunks
  }

  async close(): Promise<void> {
    await this.chunks.return?.()
  }

  /** Whether anything follows. */
  async more(): Promise<boolean> {
    while (this.at === this.bytes.length) {
      const { done, value } = await this.chunks.next()
      if (done) return false
      this.bytes = value
      this.at = 0
    }
    return true
  }

  /** @returns a copy, aligned. */
  async take(length: number): Promise<Uint8Array> {
    const out = new Uint8Array(length)
    for (let filled = 0; filled < length; ) {
      if (!(await this.more())) throw new Error('cannot read an answer of ClickHouse: it ends within a block')
      const part = this.bytes.subarray(this.at, this.at + length - filled)
      out.set(part, filled)
      filled += part.length
      this.at += part.length
    }
    return out
  }

  async varint(): Promise<number> {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const [byte] = await this.take(1)
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }

  async text(): Promise<Uint8Array> {
    return this.take(await this.varint())
  }

  /** A text that is there whole; undefined when more must come. */
  textAtHand(): Uint8Array | undefined {
    const { bytes } = this
    let at = this.at
    let length = 0
    for (let factor = 1; ; factor *= 128) {
      if (at === bytes.length) return undefined
      const byte = bytes[at++]
      length += (byte & 127) * factor
      if (byte < 128) break
    }
    if (at + length > bytes.length) return undefined
    this.at = at + length
    return bytes.slice(at, at + length)
  }
}
