/** Whoever reaches the listeners, and says nothing, does not take the file handles that the database needs for its files. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { MAIN } from '../support/server.ts'

t.setTimeout(60_000)
const HANDLES = 200
const LISTENERS = ['grpc', 'flight_sql', 'otlp_grpc']

t.test('idle connections to every listener', { skip: process.platform !== 'linux' }, async (t) => {
  const folder = temporaryFolder(t)
  const config = join(folder, 'svc.toml')
  const own = LISTENERS.map((name) => `[${name}]\naddr = "127.0.0.1:0"\n`).join('')
  const plugins = JSON.stringify(['line_protocol', 'sql', 'export', 'backup', 'otlp', ...LISTENERS])
  writeFileSync(config, `plugins = ${plugins}\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\ndata_dir = "data"\nwal_max_file_size = 131072\n${own}`)
  const command = `ulimit -n ${HANDLES}; exec "$0" "$@"`
  const child = spawn('/bin/sh', ['-c', command, process.execPath, MAIN, 'serve', '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  const sockets: Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    child.kill('SIGTERM')
    await exited
  })
  let output = ''
  const url = await new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text: Buffer) => {
        output += text
        const ready = /ready url=(\S+)/.exec(output)?.[1]
        if (ready !== undefined) resolve(ready)
      })
    void exited.then(() => reject(new Error(`it ended:\n${output}`)))
  })
  const post = async (path: string, body: string | object): Promise<number> => {
    const type = typeof body === 'string' ? 'text/plain' : 'application/json'
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const answer = await fetch(url + path, { method: 'POST', headers: { 'content-type': type }, body: text })
    await answer.text()
    return answer.status
  }
  const lines = (from: number): string =>
    Array.from({ length: 2000 }, (_, i) => `cpu,host=h${i % 10} v=${i} ${1_700_000_000_000_000_000n + BigInt(from + i)}`).join('\n')
  t.equal(await post('/write', lines(0)), 204)
  const ports = [...output.matchAll(/listening .*\bport=(\d+)/g)].map(([, port]) => Number(port))
  t.equal(ports.length, LISTENERS.length)
  // One by one; a listener closes those it does not take.
  for (const [port, count] of [...ports.map((port) => [port, HANDLES / 2]), [Number(new URL(url).port), 18]])
    for (let i = 0; i < count; i++) {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      sockets.push(socket)
      await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    }
  // HTTP has its own share, of which the others take nothing.
  for (let i = 1; i <= 10; i++) t.equal(await post('/write', lines(i * 2000)), 204)
  t.equal(await post('/api/v1/admin/backup', { target_dir: 'one' }), 200)
  t.equal(await post('/api/v1/svc/sql', { query: 'SELECT count(*) FROM cpu' }), 200)
  t.equal(await post('/api/v1/export/parquet', { measurement: 'cpu', output_path: 'cpu.parquet' }), 200)
  t.notMatch(output, /EMFILE|Too many open files/)
})

t.test('a start with fewer handles than a node needs', { skip: process.platform !== 'linux' }, async (t) => {
  const folder = temporaryFolder(t)
  const config = join(folder, 'svc.toml')
  writeFileSync(config, 'plugins = ["line_protocol"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\ndata_dir = "data"\n')
  for (const handles of [25, 40, 63]) {
    const { status, stderr } = spawnSync('/bin/sh', ['-c', `ulimit -n ${handles}; exec "$0" "$@"`, process.execPath, MAIN, 'serve', '--config', config])
    t.equal(status, 1)
    t.match(String(stderr), new RegExp(`cannot start: the process may have ${handles} files.*needs 64 at least.*LimitNOFILE`))
  }
})
