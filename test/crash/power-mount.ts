/**
 * A PowerDisk mounted as a file system (FUSE), served by a process of its own: nothing that the test does can wait for itself. The parent's side is
 * `PowerMount`; the messages are Order and Notice.
 */
import { type ChildProcess, execFile, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, read, writevSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Random } from '../../storage/conformance/random.ts'
import { FuseSession, REQUEST_BYTES, type Sync } from './fuse.ts'
import { PowerDisk } from './power-disk.ts'

type Order =
  | { order: 'mount' }
  /** Answers so many more changes, then nothing. */
  | { order: 'freeze'; after: number }
  /** Answers EIO to all that waits and comes, so that a killed process can end. */
  | { order: 'refuse' }
  | { order: 'cut'; seed: number }
  | { order: 'unmount' }
type Notice = { notice: 'mounted' | 'frozen' | 'refusing' | 'cut' | 'unmounted' } | { notice: 'failed'; cause: string }

interface Arguments {
  path: string
  broken: Sync[]
}

export class PowerMount {
  readonly path: string
  private readonly child: ChildProcess

  private constructor(path: string, child: ChildProcess) {
    this.path = path
    this.child = child
  }

  /**
   * @param broken syncs that do nothing, to see that the checks notice.
   * @throws Error when this process may not mount.
   */
  static async mount(path: string, broken: Sync[] = []): Promise<PowerMount> {
    mkdirSync(path, { recursive: true })
    const given: Arguments = { path, broken }
    const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(given)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    const mount = new PowerMount(path, child)
    await mount.order({ order: 'mount' }, 'mounted')
    return mount
  }

  /** Resolves when the disk has stood still after so many more changes; at once with 0. */
  async freeze(after: number): Promise<void> {
    await this.order({ order: 'freeze', after }, 'frozen')
  }

  /** Lets a killed process end that waits for the frozen disk. */
  async refuse(): Promise<void> {
    await this.order({ order: 'refuse' }, 'refusing')
  }

  /** The power goes and comes back: what was not synced is there in part. No process may use the mount meanwhile. */
  async cut(seed: number): Promise<void> {
    await this.order({ order: 'unmount' }, 'unmounted')
    await this.order({ order: 'cut', seed }, 'cut')
    await this.order({ order: 'mount' }, 'mounted')
  }

  /** May be called at any time, also twice. */
  async unmount(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return
    await this.order({ order: 'unmount' }, 'unmounted')
    const exited = once(this.child, 'exit')
    this.child.disconnect()
    await exited
  }

  private async order(order: Order, expected: Notice['notice']): Promise<void> {
    const ended = new AbortController()
    const answer = new Promise<void>((resolve, reject) => {
      const listener = (notice: Notice): void => {
        if (notice.notice === expected) resolve()
        else if (notice.notice === 'failed') reject(new Error(`cannot ${order.order} "${this.path}": ${notice.cause}`))
      }
      this.child.on('message', listener)
      const onExit = (): void => reject(new Error(`cannot ${order.order} "${this.path}": the process that serves it has ended`))
      this.child.once('exit', onExit)
      ended.signal.addEventListener('abort', () => {
        this.child.off('message', listener)
        this.child.off('exit', onExit)
      })
    })
    try {
      this.child.send(order)
      await answer
    } finally {
      ended.abort()
    }
  }
}

/** The serving process. */
class Server {
  private readonly path: string
  private readonly broken: Set<Sync>
  private readonly disk = new PowerDisk()
  private state: 'serving' | 'frozen' | 'refusing' = 'serving'
  /** Changes until it freezes. */
  private left = Number.POSITIVE_INFINITY
  /** Requests that came while it was frozen. */
  private waiting: Buffer[] = []
  private device: number | undefined
  private ended: Promise<void> = Promise.resolve()

  constructor({ path, broken }: Arguments) {
    this.path = path
    this.broken = new Set(broken)
  }

  async obey(order: Order): Promise<void> {
    if (order.order === 'mount') {
      await this.mount()
      notify({ notice: 'mounted' })
    } else if (order.order === 'freeze') {
      this.left = order.after
      if (this.left === 0) this.freeze()
    } else if (order.order === 'refuse') {
      this.refuse()
      notify({ notice: 'refusing' })
    } else if (order.order === 'unmount') {
      this.refuse()
      if (this.device !== undefined) await promisify(execFile)('umount', ['-i', '-l', this.path])
      await this.ended
      notify({ notice: 'unmounted' })
    } else {
      this.disk.cut(new Random(order.seed))
      notify({ notice: 'cut' })
    }
  }

  private async mount(): Promise<void> {
    const device = openSync('/dev/fuse', 'r+')
    this.state = 'serving'
    this.left = Number.POSITIVE_INFINITY
    const options = 'fd=3,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions'
    const command = spawn('mount', ['-i', '-t', 'fuse', '-o', options, 'power-disk', this.path], { stdio: ['ignore', 'ignore', 'pipe', device] })
    let said = ''
    command.stderr?.on('data', (data: Buffer) => {
      said += data.toString()
    })
    // The kernel asks while the command still runs; reading before there is a mount is refused.
    const session = new FuseSession(this.disk, this.broken)
    const [code] = (await once(command, 'close')) as [number]
    if (code !== 0) {
      closeSync(device)
      throw new Error(said.trim())
    }
    this.device = device
    this.ended = this.serve(device, session)
  }

  private async serve(device: number, session: FuseSession): Promise<void> {
    const buffer = Buffer.alloc(REQUEST_BYTES)
    for (;;) {
      const { length, code } = await receive(device, buffer)
      // Unmounted: the connection is aborted then, and whoever reads in that moment may be told so.
      if (code === 'ENODEV' || (code === 'ECONNABORTED' && this.state === 'refusing')) break
      if (code === 'EINTR' || code === 'ENOENT') continue
      if (code !== undefined) throw new Error(`cannot read from /dev/fuse: ${code}`)
      const request = buffer.subarray(0, length)
      if (this.state === 'serving' && FuseSession.changes(request) && this.left-- <= 0) this.freeze()
      if (this.state === 'frozen') this.waiting.push(Buffer.from(request))
      else reply(device, this.state === 'serving' ? session.answer(request) : FuseSession.refusal(request))
    }
    closeSync(device)
    this.device = undefined
  }

  private freeze(): void {
    if (this.state !== 'serving') return
    this.state = 'frozen'
    notify({ notice: 'frozen' })
  }

  private refuse(): void {
    this.state = 'refusing'
    for (const request of this.waiting.splice(0)) reply(this.device as number, FuseSession.refusal(request))
  }
}

function receive(device: number, buffer: Buffer): Promise<{ length: number; code?: string }> {
  return new Promise((resolve) => {
    read(device, buffer, 0, buffer.length, null, (error, length) => resolve(error === null ? { length } : { length: 0, code: error.code }))
  })
}

function reply(device: number, answer: [Buffer, Buffer] | undefined): void {
  if (answer === undefined) return
  try {
    writevSync(device, answer)
  } catch (error) {
    // Whoever asked is gone.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

function notify(notice: Notice): void {
  if (process.connected) process.send?.(notice)
}

if (import.meta.main) {
  const server = new Server(JSON.parse(process.argv[2]) as Arguments)
  // The parent has died.
  process.on('disconnect', () => void server.obey({ order: 'unmount' }))
  process.on('message', (order: Order) => {
    server.obey(order).catch((error: Error) => notify({ notice: 'failed', cause: error.message }))
  })
}
