/** Rows that are stored, as a change cursor would tell them: for points that went from the log before they were judged. */
import { deserialize } from 'node:v8'
import type { SeriesChunk, Storage } from 'svcdb'
import { Column, type ColumnChunk } from 'svcdb/lib/columns'
import { moduleUrl } from 'svcdb/lib/modules'
import type { Changed } from './judge.ts'
import type { StoredArgs } from './stored-job.ts'

const LENGTH_BYTES = 4

/** @param position behind which they are taken to have been written. @throws what keeps them from being read. */
export async function* storedRows(storage: Storage, args: StoredArgs, position: string, signal: AbortSignal): AsyncGenerator<Changed> {
  const job = storage.run<number>(moduleUrl('./stored-job.ts', import.meta.url), args, { namespace: args.namespace, background: true, signal })
  job.result.catch(() => {}) // told below
  try {
    let rest: Uint8Array = new Uint8Array(0)
    for await (const bytes of job.output) {
      rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
      for (;;) {
        if (rest.length < LENGTH_BYTES) break
        const end = LENGTH_BYTES + Buffer.from(rest.buffer, rest.byteOffset).readUInt32LE()
        if (rest.length < end) break
        for (const chunk of deserialize(rest.subarray(LENGTH_BYTES, end)) as SeriesChunk[]) yield changedOf(chunk, args.measurement, position)
        rest = rest.subarray(end)
      }
    }
    await job.result
  } finally {
    job.cancel()
  }
}

function changedOf(chunk: SeriesChunk, measurement: string, position: string): Changed {
  const rows = chunk.times.length
  const { times } = chunk
  return {
    measurement,
    position,
    backfill: false,
    stored: true,
    rows,
    times: new Int32Array(times.buffer, times.byteOffset, rows * 2),
    series: new Int32Array(rows).fill(chunk.series),
    fields: chunk.columns.map(({ name, type, scale }) => ({ name, type, ...(scale === undefined ? {} : { scale }) })),
    columns: chunk.columns.map((column) => columnOf(column, rows)),
    heap: NO_BYTES,
    tagsOf: () => chunk.tags,
  }
}

const NO_BYTES = new Uint8Array(0)

/** Texts and histograms fulfil no comparison: such columns are left empty. */
function columnOf({ name, type, values, validity, scale = 0 }: ColumnChunk, rows: number): Column {
  const column = new Column(name, type, rows)
  if (type === 'string' || type === 'histogram') return column
  for (let row = 0; row < rows; row++) {
    if (validity !== undefined && validity[row] === 0) continue
    if (type === 'float64') {
      const value = values[row] as number
      column.setF64(row, value)
      if (!Number.isFinite(value)) column.nonFinite = true
    } else if (type === 'bool') column.setBool(row, values[row] === 1)
    else if (type === 'decimal') column.setDecimal(row, values[row] as bigint, scale)
    else {
      const value = BigInt.asIntN(64, values[row] as bigint)
      column.setPair(row, Number(BigInt.asIntN(32, value)), Number(value >> 32n))
    }
  }
  return column
}
