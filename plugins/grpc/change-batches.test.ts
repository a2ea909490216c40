/** Batches of changes are encoded once for all who are told of a change at about the same time, and never taken for those of another one. */
import type { RowsChanged } from 'svcdb'
import { Column } from 'svcdb/lib/columns'
import t from 'tap'
import { RowBatches } from './change-batches.ts'

const ROWS = 10
const MESSAGE = 1 << 20

function changeOf(sequence: number, values: number): RowsChanged {
  const column = new Column('v', 'float64', ROWS)
  for (let row = 0; row < ROWS; row++) column.setF64(row, values + row)
  return {
    ...{ kind: 'rows', position: `p${sequence}`, sequence, namespace: '', measurement: 'm', backfill: false, rows: ROWS },
    ...{ times: new Int32Array(ROWS * 2), series: new Int32Array(ROWS), columns: [column], heap: new Uint8Array(0), fields: [{ name: 'v', type: 'float64' }] },
    tagsOf: () => ({ host: 'a' }),
  }
}

t.test('one change', async (t) => {
  const batches = new RowBatches()
  const change = changeOf(1, 0)
  const { batch } = batches.encode(change, 0, MESSAGE)
  t.equal(batches.encode({ ...change }, 0, MESSAGE).batch, batch, 'for another subscriber')
  t.not(batches.encode(change, 1, MESSAGE).batch, batch, 'for one that goes on within it')
  t.not(batches.encode(change, 0, 100).batch, batch, 'for one that takes smaller messages')
})

t.test('changes whose rows lie in the same buffers', async (t) => {
  const batches = new RowBatches()
  const change = changeOf(1, 0)
  const first = Buffer.from(batches.encode(change, 0, MESSAGE).batch)
  change.columns[0].setF64(0, 77)
  const next = batches.encode({ ...change, sequence: 2 }, 0, MESSAGE).batch
  t.not(first.equals(next), true)
  t.ok(Buffer.from(batches.encode(changeOf(1, 0), 0, MESSAGE).batch).equals(first), 'and the same rows elsewhere')
})

t.test('what is kept is bounded', async (t) => {
  const batches = new RowBatches()
  const change = changeOf(1, 0)
  const { batch } = batches.encode(change, 0, MESSAGE)
  for (let sequence = 2; sequence < 40; sequence++) batches.encode(changeOf(sequence, 0), 0, MESSAGE)
  t.not(batches.encode(change, 0, MESSAGE).batch, batch)
  const again = batches.encode(change, 0, MESSAGE).batch
  batches.clear()
  t.not(batches.encode(change, 0, MESSAGE).batch, again, 'and goes with the last subscriber')
})
