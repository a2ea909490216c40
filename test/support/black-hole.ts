/**
 * A port of this machine that takes no connection and refuses none, as a host behind a firewall that drops packets: a process that listens has stopped, and its queue of
 * connections is full. Linux only: others refuse what finds no room in that queue.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'

/** Linux takes one connection more into the queue than it is to have. */
const ROOM = 2
const LISTEN = `const s = require('node:net').createServer(); s.listen({ port: 0, host: '127.0.0.1', backlog: ${ROOM - 1} }, () => console.log(s.address().port))`

export async function blackHole(t: Pick<Test, 'teardown'>): Promise<number> {
  const child = spawn(process.execPath, ['-e', LISTEN], { stdio: ['ignore', 'pipe', 'inherit'] })
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    child.kill('SIGKILL')
  })
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(String(said))
  child.kill('SIGSTOP')
  for (let i = 0; i < ROOM; i++) {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    await once(socket, 'connect')
  }
  return port
}
