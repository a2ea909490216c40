import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { definePlugin } from '../plugin.ts'
import type { RunningJob } from '../storage/jobs.ts'
import { boot } from '../testkit/index.ts'
import { sendOutput } from './output.ts'

t.test('requests sent ahead are answered by one job after the other, and the one that runs ends with the connection', async (t) => {
  const AHEAD = 10
  let cancelled = 0
  let count = 0
  let begun: () => void = () => {}
  const first = new Promise<void>((resolve) => (begun = resolve))
  const job = (): RunningJob<unknown> => {
    async function* output(): AsyncGenerator<Uint8Array> {
      count++
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
  await first
  socket.destroy()
  await once(socket, 'close')
  while (cancelled === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  t.same([count, cancelled], [1, 1])
  t.same(warnings, [])
})
