/** Work that a node wants no more, but which takes a while to end there. */
import { definePlugin, type Owned, type Svc } from 'svcdb'
import { boot, ManualClock, SharedState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { BEAT } from './testing.ts'

/** Nodes with the same work, which ends when it is let go. */
async function workers(t: Test, count: number) {
  const clock = new ManualClock()
  const shared = new SharedState()
  const seen: string[] = []
  const all: { owned: Owned; add(): Owned; letGo(): void }[] = []
  for (let id = 1; id <= count; id++) {
    const { promise: ended, resolve: letGo } = Promise.withResolvers<void>()
    let add!: () => Owned
    let owned!: Owned
    const worker = definePlugin({
      id: 'worker',
      summary: 'Works',
      stability: 'beta',
      capabilities: ['state'],
      setup(svc: Svc) {
        add = () =>
          svc.own('slow', async ({ signal }) => {
            seen.push(`begin ${id}`)
            if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
            await ended
            seen.push(`end ${id}`)
          })
        owned = add()
      },
    })
    const node = await boot({
      plugins: ['cluster', worker],
      clock,
      storage: await shared.engine(),
      // What work may take to end is more than some beats.
      config: { server: { shutdown_timeout_secs: 600 }, cluster: { node_id: id } },
    })
    t.teardown(() => {
      letGo()
      return node.stop()
    })
    all.push({ owned, add, letGo })
  }
  return { all, clock, seen }
}

t.test('another node begins it when it has ended', async (t) => {
  const { all, clock, seen } = await workers(t, 2)
  await clock.advance(BEAT)
  t.same(seen, ['begin 1'])
  const stopped = all[0].owned.stop()
  for (let i = 0; i < 6; i++) await clock.advance(BEAT)
  t.same(seen, ['begin 1'])
  all[0].letGo()
  await stopped
  await clock.advance(3 * BEAT)
  t.same(seen, ['begin 1', 'end 1', 'begin 2'])
})

for (const count of [1, 2])
  t.test(`work of the same name that is added meanwhile begins when it has ended: ${count === 1 ? 'alone' : 'beside another node'}`, async (t) => {
    const { all, clock, seen } = await workers(t, count)
    await clock.advance(BEAT)
    t.same(seen, ['begin 1'])
    const stopped = all[0].owned.stop()
    all[0].add()
    await clock.advance(3 * BEAT)
    t.same(seen, ['begin 1'])
    all[0].letGo()
    await stopped
    await clock.advance(3 * BEAT)
    t.match(seen, ['begin 1', 'end 1', /^begin/])
    t.equal(seen.length, 3)
  })
