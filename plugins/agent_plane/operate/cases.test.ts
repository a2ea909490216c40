/** What operators are shown of a case. */
import t from 'tap'
import { wallClock } from '../cases/calendar.ts'
import type { Sealer } from '../log/sealer.ts'
import { controlled, skill } from '../testing/control.ts'
import { OperatedCases } from './cases.ts'

const HOUR = 3_600_000

t.test('the history of a case has what a sweep did to it, however much else that sweep did', async (t) => {
  const promise = skill('promise', (context) => context.deadline('answer', { unit: 'hours', n: 1 }).then(() => null))
  const { driver, run, state, clock } = await controlled([promise])
  const one = driver({ calendars: new Map([[wallClock.name, wallClock]]) })
  const order = (value: number) => ({ kind: 'support.order', correlation: [{ namespace: 'order', value: String(value) }] })
  for (let i = 0; i < 120; i++) await run(one, 'promise', { case: order(i) })
  clock.now += HOUR
  await one.sweep([])
  const cases = new OperatedCases({
    state: () => state,
    driver: () => one,
    now: () => clock.now,
    sealer: {} as Sealer,
    tenant: 'default',
    maxHistoryBytes: 1 << 23,
  })
  const { rows, truncated } = await cases.list('escalated', 200)
  t.same([rows.length, truncated], [120, false])
  for (const { id } of rows) {
    const { history, history_truncated } = await cases.view(id, 200)
    t.same(
      history.filter(({ kind }) => kind === 'Swept').map(({ record }) => (record as { action: string }).action),
      ['deadline_breached', 'case_escalated'],
    )
    t.equal(history_truncated, false)
  }
})
