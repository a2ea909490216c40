/** A real Mosquitto. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { until } from '../support/until.ts'

/** Why tests that need it are skipped; false when it is there. */
export const noMosquitto: string | false =
  spawnSync('mosquitto', ['-h']).error === undefined ? false : 'there is no mosquitto (Debian: apt-get install mosquitto)'

/** @param name of its file in the folder. @param lines of its configuration. @returns it when it accepts connections on the port. */
export async function startMosquitto(folder: string, name: string, port: number, lines: string): Promise<ChildProcess> {
  const file = join(folder, `${name}.conf`)
  // As the user of the folder, which Mosquitto would otherwise not be when root starts it.
  await writeFile(file, `user ${userInfo().username}\nlistener ${port} 127.0.0.1\n${lines}\n`)
  const broker = spawn('mosquitto', ['-c', file], { stdio: 'ignore' })
  await until('mosquitto accepts connections', () => accepts(port))
  return broker
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => socket.destroy(resolve(true) as never)).once('error', () => resolve(false))
  })
}
