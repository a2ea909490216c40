/** What is read anew while somebody changes it. */
import type { StateStore } from 'svcdb'
import { boot, SharedState } from 'svcdb/testkit'
import t from 'tap'
import { asked } from './testing.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n

t.test('a definition that is altered while all is read again stays as it is altered', async (t) => {
  const shared = new SharedState()
  const engine = await shared.engine()
  const stateOf = engine.state.bind(engine)
  let held: { read(): void; go: Promise<void> } | undefined
  engine.state = (owner: string): StateStore => {
    const state = stateOf(owner)
    return {
      ...state,
      async list(range) {
        const found = await state.list<never>(range)
        if (range?.prefix?.startsWith('trigger/') && held !== undefined) {
          held.read()
          await held.go
        }
        return found
      },
    }
  }
  const node = await boot({ plugins: ['line_protocol', 'triggers'], config: { triggers: {} }, storage: engine })
  t.teardown(() => node.stop())
  const { run, write, settled } = asked(node)
  for (const name of ['hot', 'warm']) t.equal((await run(`CREATE TRIGGER ${name} ON cpu WHEN v > 90 COOLDOWN INTERVAL '0s'`)).status, 200)
  await write(`cpu,host=a v=95 ${now}`)
  await settled(2)
  // Somebody else has committed: what is found next is void, and all is read again.
  await shared.of('triggers').transaction(async (tx) => {
    const ring = await tx.get<{ version: number }>('place//')
    tx.put('place//', { ...ring, version: (ring?.version ?? 0) + 1 })
  })
  const [read, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  held = { read: read.resolve, go: go.promise }
  await write(`cpu,host=b v=95 ${now}`)
  await read.promise
  held = undefined
  t.equal((await run('ALTER TRIGGER hot DISABLE')).status, 200)
  go.resolve()
  await write(`cpu,host=c v=95 ${now}`)
  const fired = (await settled(4)).map(({ trigger_name, tags }) => `${trigger_name} ${tags.host}`)
  t.same(
    fired.filter((text) => text.startsWith('warm')),
    ['warm a', 'warm b', 'warm c'],
  )
  t.notOk(fired.includes('hot c'), 'what came behind the statement does not fire')
  t.match((await run('SHOW TRIGGERS')).body, {
    triggers: [
      { name: 'hot', enabled: false },
      { name: 'warm', enabled: true },
    ],
  })
})
