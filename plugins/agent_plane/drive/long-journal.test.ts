/** Journals that are very long are read in turns of the event loop, by whoever reads them, and so is what they have told to the code of steps. */
import t from 'tap'
import { turnsDuring } from '../../../test/support/turns-during.ts'
import { drill } from '../cases/drill.ts'
import { controlled, skill } from '../testing/control.ts'
import { RunJournal } from './run-journal.ts'
import { TellingOrder } from './telling-order.ts'

t.test('others have their turns while a journal of thousands of records is read', async (t) => {
  const COUNT = 9000
  const talk = skill('talk', async (context) => {
    for (let i = 0; i < COUNT; i++) await context.note(`note ${i}`)
    return null
  })
  const { driver, run, state, records, clock } = await controlled([talk])
  const { run: id, status } = await run(driver(), 'talk')
  t.equal(status, 'succeeded')
  t.ok((await records(id)).length > COUNT)
  const read = await turnsDuring(() => RunJournal.read(state, id))
  t.ok(read >= COUNT / 500, `${read} turns`)
  const replayed = await turnsDuring(() => driver().replay(id))
  t.ok(replayed >= COUNT / 500, `${replayed} turns`)
  t.notOk((await drill(state, 'svc', clock.now)).findings)
})

t.test('others have their turns while a step is told what its journal has, in the same order', async (t) => {
  const order = new TellingOrder()
  const told: number[] = []
  const turns = await turnsDuring(async () => {
    const all = Array.from({ length: 60 }, (_, i) => {
      return new Promise<void>((resolve) => {
        order.add(60 - i, () => {
          for (const until = performance.now() + 1; performance.now() < until; );
          told.push(60 - i)
          resolve()
        })
      })
    })
    await Promise.all(all)
  })
  t.same(
    told,
    told.toSorted((a, b) => a - b),
  )
  t.ok(turns >= 4, `${turns} turns`)
})
