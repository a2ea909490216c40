/** Runs a node until a signal says to stop. */
import type { NodeConfig } from '../config/config.ts'
import { idle, notes } from '../config/text.ts'
import { SvcError } from '../lib/errors/index.ts'
import { collectWhenGrown, HeapTrimmer } from '../lib/heap/index.ts'
import { openFiles } from '../lib/network/index.ts'
import { LateError } from '../lifecycle.ts'
import { SvcNode } from '../node.ts'
import type { Io } from './argv.ts'
import { collectOften, wantsSmall } from './footprint.ts'

/** Steps that miss the limit are reported by themselves before. */
const KILL_GRACE_MS = 1000
const SETTLED_MS = 3000
/** A full node at work has some 42 open, without connections. */
const MIN_OPEN_FILES = 64

export async function serve(config: NodeConfig, io: Io): Promise<number> {
  const files = openFiles()
  if (files < MIN_OPEN_FILES)
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot start: the process may have ${files} files and connections open, and needs ${MIN_OPEN_FILES} at least; raise the limit (ulimit -n, LimitNOFILE)`,
    )
  const small = wantsSmall(config.server.footprint, config.storage?.engine)
  if (!small) collectWhenGrown()
  const node = new SvcNode(config)
  const log = node.logs.child('kernel')
  for (const note of notes(config)) log.info(note)
  for (const note of idle(config)) log[config.plugins.length === 0 ? 'warn' : 'info'](note)
  let trimmer: HeapTrimmer | undefined
  const up = (async () => {
    await node.setup()
    await node.start()
    // A start leaves more behind than the node needs from then on.
    trimmer = new HeapTrimmer()
    if (!small) return
    collectOften()
    // It may never rest, and has less to collect. What connections load with their first attempt is loaded by then.
    setTimeout(() => trimmer?.trim(), SETTLED_MS).unref()
  })()
  // Other servers read their configuration again by it, and scripts send it; the end of a terminal's session is no reason to lose what is under way.
  const goOn = () => log.info({ signal: 'SIGHUP' }, 'going on: files of TLS and policies are read again when they change, the configuration at a start')
  process.on('SIGHUP', goOn)
  const signal = await Promise.race([io.stopSignal, up.then(() => io.stopSignal)])
  trimmer?.stop()
  log.info({ signal }, 'stopping')
  const late = (): void => {
    // Once all is undone it is something that was named before, or a thread.
    const waits = node.stopsAt
    log.error(
      waits === undefined ? {} : { waits_for: waits },
      'cannot stop within server.shutdown_timeout_secs: killing the process, since something of it does not end; the next start replays the log',
    )
    io.kill?.()
  }
  setTimeout(late, config.server.shutdown_timeout_secs * 1000 + KILL_GRACE_MS).unref()
  const failures = await node.stop()
  await up.catch(() => {}) // it was interrupted by the signal, or had failed and thrown above
  // Exiting would wait for what has not ended.
  if (failures.some(({ cause }) => cause instanceof LateError)) late()
  process.off('SIGHUP', goOn)
  log.info('stopped')
  return failures.length === 0 ? 0 : 1
}
