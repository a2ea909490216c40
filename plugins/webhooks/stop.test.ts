/** Stops of a server while a delivery is under way that does not end. */
import type { Socket } from 'node:net'
import { definePlugin } from 'svcdb'
import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { at, delivery, makeCertificate, receive, start } from './testing.ts'

t.test('what others have taken of shutdown_timeout_secs is not waited for once more', async (t) => {
  const clock = new ManualClock()
  const others = definePlugin({
    id: 'others',
    summary: 'Takes its time to drain',
    stability: 'experimental',
    setup(svc) {
      svc.drain(() => clock.skip(16_000))
    },
  })
  const certificate = await makeCertificate(t)
  const held: Socket[] = []
  const deaf = await receive(t, certificate, (_request, _response, socket) => void held.push(socket))
  const section = { ca_file: certificate.caFile, timeout_secs: 120, drain_secs: 5 }
  const { hooks, node } = await start(t, section, { clock, plugins: [others], config: { server: { shutdown_timeout_secs: 20 } } })
  await clock.advance(1000)
  await hooks.define(at('deaf'), deaf.url)
  await hooks.enqueue([delivery('deaf', 'd')])
  await until('it is being sent', () => held.length === 1)
  t.same(await node.stop(), [], 'four fifths of the limit are over, and the clock stands still')
  await until('the attempt is broken off', () => held.every((socket) => socket.destroyed))
})
