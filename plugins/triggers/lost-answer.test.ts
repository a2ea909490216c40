/** A state store that commits, and whose answer is lost: what was made is there, with all that belongs to it. */
import type { StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, ManualClock, SharedState } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { asked } from './testing.ts'
import { FakeWebhooks, webhooksPlugin } from './testing-webhooks.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n

for (const committed of [true, false])
  t.test(`a trigger whose answer was lost ${committed ? 'keeps its webhook' : 'and that was not stored leaves none'}`, async (t) => {
    const shared = new SharedState()
    const engine = await shared.engine(() => true, true)
    const stateOf = engine.state.bind(engine)
    // The transaction, and the look whether it was stored.
    let [losing, failing] = [true, false]
    engine.state = (owner: string): StateStore => {
      const state = stateOf(owner)
      if (owner !== 'triggers') return state
      const away = () => new SvcError('OVERLOADED', 'the state store is out of reach')
      return {
        ...state,
        get: async (key) => {
          if (failing && key.startsWith('trigger/')) throw away()
          return state.get(key)
        },
        async transaction(body) {
          let made = false
          const value = await state.transaction((tx) => {
            const put: typeof tx.put = (key, value) => {
              made ||= key.startsWith('trigger/')
              if (losing && made && !committed) throw away()
              return tx.put(key, value)
            }
            return body({ ...tx, put })
          })
          if (!made || !losing) return value
          losing = false
          throw new SvcError('OVERLOADED', 'whether it was stored is not known')
        },
      }
    }
    const service = new FakeWebhooks()
    const clock = new ManualClock(Date.now())
    const node = await boot({ plugins: ['line_protocol', 'triggers', webhooksPlugin(service)], config: { triggers: {} }, storage: engine, clock })
    t.teardown(() => node.stop())
    const { run, write } = asked(node)
    failing = true
    const { status } = await run("CREATE TRIGGER hot ON m WHEN v > 1 DELIVER webhook('https://a.example/hot')")
    t.equal(status, 503)
    failing = losing = false
    if (!committed) {
      await until('its endpoint is removed', async () => {
        await clock.advance(10_000)
        return service.endpoints.size === 0
      })
      return
    }
    const listed = async () => ((await run('SHOW TRIGGERS')).body.triggers as unknown[]).length
    await until('it is heard of', async () => {
      await clock.advance(1000)
      return (await listed()) === 1
    })
    await clock.advance(30_000)
    t.same([...service.endpoints.values()], ['https://a.example/hot'])
    await write(`m,host=a v=5 ${now}`)
    await until('its signal is handed over', () => service.deliveries.size === 1)
  })
