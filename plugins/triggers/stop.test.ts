/** A stop while very many signals are handed to their channels. */
import { setImmediate as turn } from 'node:timers/promises'
import { definePlugin, WEBHOOKS, type WebhookDelivery } from 'svcdb'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { start } from './testing.ts'
import { FakeWebhooks, webhooksPlugin } from './testing-webhooks.ts'

const ROWS = 40
const COMPOSITES = 100
const TURNS = 50

t.test('a stop does not wait for all of a storm to be handed over, and the next start hands over the rest', async (t) => {
  const dataDir = temporaryFolder(t)
  const kept = new FakeWebhooks()
  let stopped: Promise<unknown> | undefined
  let draining = false
  class Slow extends FakeWebhooks {
    override async enqueue(deliveries: readonly WebhookDelivery[]) {
      stopped ??= node.node.stop()
      await until('triggers are about to drain', () => draining)
      for (let i = 0; i < TURNS; i++) await turn()
      return super.enqueue(deliveries)
    }
  }
  const service = new Slow()
  const plugin = definePlugin({
    id: 'slow',
    summary: 'Takes deliveries slowly',
    stability: 'experimental',
    provides: [WEBHOOKS],
    // So it drains before them.
    requires: ['triggers'],
    setup(svc) {
      svc.provide(WEBHOOKS, service)
      svc.drain(() => void (draining = true))
    },
  })
  const node = await start(t, { plugins: [plugin], storage: 'embedded', dataDir })
  for (const name of ['a', 'b']) t.equal((await node.run(`CREATE TRIGGER ${name} ON m WHEN ${name} > 0 COOLDOWN INTERVAL '0s'`)).status, 200)
  for (let i = 0; i < COMPOSITES; i++) {
    const { status } = await node.run(`CREATE TRIGGER c${i} ON SIGNALS (a, b) WITHIN INTERVAL '1d' BY (host) DELIVER webhook('https://a.example/${i}')`)
    t.equal(status, 200)
  }
  await node.write(Array.from({ length: ROWS }, (_, i) => `m,host=h${i} a=1,b=1`))
  await until('they are handed over', () => stopped !== undefined)
  t.same(await stopped, [])
  const handed = service.deliveries.size
  t.ok(handed > 0 && handed < ROWS * COMPOSITES, `${handed} of ${ROWS * COMPOSITES} were handed over`)
  for (const [key, url] of service.endpoints) kept.endpoints.set(key, url)
  await start(t, { plugins: [webhooksPlugin(kept)], storage: 'embedded', dataDir })
  await until('the rest is handed over', () => new Set([...service.deliveries.keys(), ...kept.deliveries.keys()]).size === ROWS * COMPOSITES)
})
