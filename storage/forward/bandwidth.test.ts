/** Bytes a second, by a clock of the test's own, and what counts as sent. Seeds are printed; SVC_SEED repeats one. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { Bandwidth } from './bandwidth.ts'
import { GrpcClient } from './grpc-client.ts'
import { upstream } from './testing.ts'

t.test('never more than the limit allows, and never less while something waits', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 50; round++) {
    const limit = 1 + Math.floor(random() * 100_000)
    const bandwidth = new Bandwidth(limit)
    const sent: { at: number; bytes: number }[] = []
    let now = random() * 1e6
    for (let i = 0; i < 100; i++) {
      // Now and then there is nothing to send: what was not used is not saved up.
      if (random() < 0.1) now += random() * 60_000
      now += bandwidth.waitMs(now)
      const bytes = Math.floor(random() * random() * 1_000_000)
      sent.push({ at: now, bytes })
      bandwidth.sent(bytes, now)
    }
    let most = 0
    for (const [first, { at }] of sent.entries()) {
      let bytes = 0
      for (let last = first; last < sent.length; last++) {
        // All but the last of them, which is on its way yet.
        most = Math.max(most, bytes - ((sent[last].at - at) / 1000) * limit)
        bytes += sent[last].bytes
      }
    }
    t.ok(most < 1, `round ${round}: ${most} bytes above ${limit} a second`)
  }

  const busy = new Bandwidth(1000)
  let now = 5
  for (let i = 0; i < 1000; i++) {
    now += busy.waitMs(now)
    busy.sent(250, now)
  }
  t.equal(Math.round(now + busy.waitMs(now)), 250_005, 'all of the limit is used, and each wait ends')
})

t.test('without a limit nothing waits', async (t) => {
  const bandwidth = new Bandwidth(0)
  bandwidth.sent(2 ** 40, 10)
  t.equal(bandwidth.waitMs(10), 0)
})

t.test('bytes of a request that is refused have crossed the link too', async (t) => {
  const { url } = await upstream(t, { config: { server: { allow_open: true } } })
  const client = new GrpcClient({ url, tls: async () => ({}), compression: 'none', timeoutMs: 10_000 })
  t.teardown(() => client.close())
  const { signal } = new AbortController()
  await t.rejects(client.call('/svc.Service/Write', Buffer.alloc(100, 0xff), {}, signal), { message: /answers BAD_REQUEST/ })
  t.equal(client.bytes, 105)
  const nobody = new GrpcClient({ url: 'http://127.0.0.1:9', tls: async () => ({}), compression: 'none', timeoutMs: 10_000 })
  await t.rejects(nobody.call('/svc.Service/Write', Buffer.alloc(100), {}, signal), { message: /cannot connect/ })
  t.equal(nobody.bytes, 0, 'nothing has, without a connection')
})
