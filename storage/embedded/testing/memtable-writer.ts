/** A memtable of one table for tests, and rows for it. */
import { ByteHeap, TableBatch } from 'svcdb/lib/columns'
import { Memtable } from '../memtable/memtable.ts'
import { SeriesTimes } from '../memtable/series-times.ts'
import { MemtableMemory, SlabPool } from '../memtable/slabs.ts'
import type { FieldDef } from '../threads/definitions.ts'
import type { StateEvent } from '../threads/messages.ts'

/** @param fill sets the values of a row. Rows are of one series, their times 0, 1, ... */
export function memtableWriter<T>(
  fields: readonly FieldDef[],
  fill: (batch: TableBatch, row: number, values: T, heap: ByteHeap) => void,
  {
    memtableBytes = 8 << 20,
    heapBuffer,
    memory = new MemtableMemory(new SlabPool({ memtableBytes, keptBytes: memtableBytes })),
  }: { memtableBytes?: number; heapBuffer?: number; memory?: MemtableMemory } = {},
) {
  const events: StateEvent[] = []
  const publish = (event: StateEvent): void => void events.push(event)
  const memtable = new Memtable({ id: 0, sequence: 1, firstWal: 1, seriesCapacity: 16, memory, publish, ...(heapBuffer !== undefined && { heapBuffer }) })
  const times = new SeriesTimes()
  let written = 0
  const write = (rows: readonly T[]): void => {
    const heap = new ByteHeap()
    const batch = new TableBatch({ namespace: '', name: 'm', id: 0, fields: new Map() })
    for (const values of rows) fill(batch, batch.addRow(0, written++, 0, 0), values, heap)
    const targets = batch.columns.map(({ name }) => fields.find((field) => field.name === name) as FieldDef)
    memtable.append(0, batch, heap.bytes, fields, targets, times)
  }
  /** @returns the chunks that there are. */
  const chunks = () => memtable.tables.get(0)?.chunks ?? []
  return { memtable, memory, events, write, chunks }
}
