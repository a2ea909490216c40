import { mapState } from 'svcdb/testkit'
import t from 'tap'
import { countWaiting, dropWaiting, keepWaiting, waitingCapabilities, waitingRuns } from './waiting-signals.ts'

t.test('what waits is found by capability, the oldest first, once each, and counted', async (t) => {
  const state = mapState()
  const run = (capability: string, idempotencyKey: string) => ({ capability, input: null, idempotencyKey, actor: 'svc:trigger/x' })
  const keep = (capability: string, id: string, at: number) => state.transaction((tx) => keepWaiting(tx, run(capability, id), at, 5))
  for (const [capability, id, at] of [
    ['b.do', '1', 2],
    ['b.do', '2', 1],
    ['b', '3', 1],
    ['a/b', '4', 9],
    ['b.do', '1', 7],
  ] as const)
    t.ok(await keep(capability, id, at))
  t.same(await waitingCapabilities(state), ['a/b', 'b.do', 'b'])
  t.same(
    (await waitingRuns(state, 'b.do', 10)).map(({ idempotencyKey }) => idempotencyKey),
    ['2', '1'],
  )
  t.equal(await countWaiting(state), 4)
  t.ok(await keep('c', '5', 1))
  t.notOk(await keep('c', '6', 1), 'so many wait as may')
  for (const [capability, id] of [
    ['b.do', '1'],
    ['b.do', '2'],
    ['b', '3'],
    ['a/b', '4'],
    ['c', '5'],
    ['c', '5'],
  ] as const)
    await state.transaction((tx) => dropWaiting(tx, run(capability, id)))
  t.equal(await countWaiting(state), 0)
  t.same(await state.list({ prefix: 'signals/of/' }), [])
  t.same(await waitingCapabilities(state), [])
})
