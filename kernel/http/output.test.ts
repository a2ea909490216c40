import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { definePlugin } from '../plugin.ts'
import type { RunningJob } from '../storage/storage.ts'
import { boot } from '../testkit/index.ts'
import { sendOutput } from './output.ts'

t.test('many requests of one connection are answered by jobs at one time, and each ends with it', async (t) => {
  const AHEAD = 30
  let cancelled = 0
  let begun: () => void = () => {}
  const all = new Promise<void>((resolve) => {
    let count = 0
    begun = () => ++count === AHEAD && resolve()
  })
  const job = (): RunningJob<unknown> => {
    async function* output(): AsyncGenerator<Uint8Array> {
      begun()
      await new Promise(() => {})
      yield new Uint8Array(1)
    }
    return { output: output(), result: new Promise(() => {}), cancel: () => void cancelled++ } as never
  }
  const plugin = definePlugin({
    id: 'probe',
    summary: 'A route for the test',
    stability: 'experimental',
    setup: (svc) => svc.http.get('/job', async (request, reply) => sendOutput(request, reply, job(), () => {})),
  })
  const warnings: string[] = []
  const warned = (warning: Error) => warnings.push(String(warning))
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const node = await boot({ plugins: [plugin] })
  t.teardown(() => node.stop())
  const socket = connect(Number(new URL(node.url).port), '127.0.0.1')
  socket.write('GET /job HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(AHEAD))
  await all
  socket.destroy()
  await once(socket, 'close')
  while (cancelled < AHEAD) await new Promise((resolve) => setTimeout(resolve, 5))
  t.same(warnings, [])
})
