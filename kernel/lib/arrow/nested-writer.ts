/** Lists, structs and maps: rare in results, so that each is taken apart into arrays of its members' values. */
import type { SqlVector } from '../sql-result/index.ts'
import { type BatchParts, Presence } from './body.ts'
import { type ColumnWriter, Gathered, presentRows } from './column-writer.ts'

const plain = (values: unknown[]): SqlVector => ({ values })

/** Lists and, with `entry`, maps: an offset a row, and all items one after the other. */
export class ListWriter implements ColumnWriter {
  private readonly items: ColumnWriter
  private readonly presence = new Presence()
  private readonly offsets = new Gathered()
  private rows = 0
  private count = 0

  constructor(items: ColumnWriter) {
    this.items = items
  }

  size(vector: SqlVector, from: number, to: number): number {
    const items = itemsOf(vector, from, to)
    return 4 * (to - from) + this.items.size(plain(items), 0, items.length)
  }

  append(vector: SqlVector, from: number, to: number): void {
    const present = presentRows(vector, from, to)
    this.presence.append(present, from, to - from)
    const offsets = new Int32Array(this.offsets.room(4 * (this.rows + to - from + 1)).buffer)
    for (let i = from; i < to; i++) {
      if (present === undefined || present[i] === 1) this.count += (vector.values[i] as ArrayLike<unknown>).length
      offsets[++this.rows] = this.count
    }
    const items = itemsOf(vector, from, to)
    this.items.append(plain(items), 0, items.length)
  }

  finish(parts: BatchParts): void {
    this.presence.finish(parts)
    parts.buffer(this.offsets.room(4 * (this.rows + 1)).subarray(0, 4 * (this.rows + 1)))
    this.items.finish(parts)
  }

  reset(): void {
    this.presence.reset()
    this.items.reset()
    this.rows = 0
    this.count = 0
  }
}

function itemsOf({ values, validity }: SqlVector, from: number, to: number): unknown[] {
  const items: unknown[] = []
  for (let i = from; i < to; i++) {
    const list = validity !== undefined && validity[i] === 0 ? undefined : (values[i] as ArrayLike<unknown> | null | undefined)
    if (list !== null && list !== undefined) for (let k = 0; k < list.length; k++) items.push(list[k])
  }
  return items
}

/** Values are objects with the members by name. */
export class StructWriter implements ColumnWriter {
  private readonly names: readonly string[]
  private readonly members: readonly ColumnWriter[]
  private readonly presence = new Presence()

  constructor(names: readonly string[], members: readonly ColumnWriter[]) {
    this.names = names
    this.members = members
  }

  size(vector: SqlVector, from: number, to: number): number {
    return this.members.reduce((size, member, i) => size + member.size(plain(membersOf(vector, this.names[i], from, to)), 0, to - from), 0)
  }

  append(vector: SqlVector, from: number, to: number): void {
    this.presence.append(presentRows(vector, from, to), from, to - from)
    for (let i = 0; i < this.members.length; i++) this.members[i].append(plain(membersOf(vector, this.names[i], from, to)), 0, to - from)
  }

  finish(parts: BatchParts): void {
    this.presence.finish(parts)
    for (const member of this.members) member.finish(parts)
  }

  reset(): void {
    this.presence.reset()
    for (const member of this.members) member.reset()
  }
}

function membersOf({ values, validity }: SqlVector, name: string, from: number, to: number): unknown[] {
  const members: unknown[] = new Array(to - from)
  for (let i = from; i < to; i++) {
    const value = validity !== undefined && validity[i] === 0 ? undefined : (values[i] as Record<string, unknown> | null | undefined)
    members[i - from] = value?.[name] ?? null
  }
  return members
}
