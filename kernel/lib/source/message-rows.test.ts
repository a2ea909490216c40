import { WriteBatch } from 'svcdb/lib/columns'
import { seeded } from 'svcdb/lib/random'
import { FakeResolver } from 'svcdb/testkit'
import t from 'tap'
import { MessageRows } from './message-rows.ts'

t.test('each row says which message it is of, and those of messages that fail are gone: whatever tables they come to', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const resolver = new FakeResolver()
  for (let round = 0; round < 50; round++) {
    const opened: WriteBatch[] = []
    const rows = new MessageRows(() => {
      const batch = new WriteBatch(resolver)
      opened.push(batch)
      return batch
    })
    const expected: string[] = []
    let value = 0
    for (let message = 0; message < 40; message++) {
      const fails = random() < 0.3
      for (let i = Math.floor(random() * 6); i > 0; i--) {
        const batch = random() < 0.8 ? rows.batch : rows.more(`more${Math.floor(random() * 2)}`)
        const table = random() < 0.2 ? batch.mixed() : batch.table(resolver.measurement('', `m${Math.floor(random() * 9)}`))
        const row = table.addRow(0, 0, 0, 999)
        table.column('v', 'float64').setF64(row, ++value)
        if (!fails) expected.push(`${value} of ${message}`)
      }
      if (fails) rows.takeBack()
      else rows.keep(message)
      t.equal(rows.empty, expected.length === 0)
    }
    const found = opened.flatMap(({ tables }) =>
      tables.flatMap((table) => Array.from({ length: table.rows }, (_, row) => `${table.find('v')?.f64[row]} of ${table.position[row]}`)),
    )
    t.same(found.sort(), expected.sort())
  }
})
