#!/usr/bin/env node
/**
 * argv, signals, and the only process.exit.
 *
 * JavaScript, and main.ts a link to it: what Node.js strips types with takes 30 ms and 20 MiB, and all other modules come out of the cache of compiled code
 * (docs/decisions/050-a-start-loads-what-it-runs.md).
 */

// Before anything is imported: older ones fail over what they lack, in words that help nobody.
const MAJOR = 24
if (Number.parseInt(process.versions.node, 10) < MAJOR) {
  process.stderr.write(`svc: cannot run on Node.js ${process.versions.node}: it needs ${MAJOR} or later; install that, or put it first in PATH\n`)
  process.exit(1)
}
const { keepCompiledCode } = await import('./cli/compile-cache.ts')

// Whatever is written, by native libraries too, is its owner's only: data, backups and exports are as secret as the credentials that guard them.
process.umask(0o077)

const given = { ...process.env }
keepCompiledCode(process.env)

// Engines run long native calls in libuv's thread pool, where the log's fdatasync must not wait behind them. libuv reads the size when
// it first needs the pool, so it is set before anything is loaded.
process.env.UV_THREADPOOL_SIZE ??= '16'
const { becomeSmall } = await import('./cli/footprint.ts')
becomeSmall(process.argv.slice(2), given)
const { findOwnModules } = await import('./lib/modules/own-modules.ts')
findOwnModules()
const { collect } = await import('./lib/heap/collect.ts')
const { run } = await import('./cli/cli.ts')

/** What comes so soon after a signal to stop is the same one: timeout(1) signals a process and then its group, of which it is. */
const ONE_SIGNAL_MS = 500

/** Exiting waits for threads, and they for native calls that may never return: this waits for nothing. Locks end with the process. */
function kill() {
  process.kill(process.pid, 'SIGKILL')
}

// A reader that goes away early, such as `head`, is no failure of ours.
process.stdout.on('error', () => {})

let stopping = false
const code = await run(process.argv.slice(2), {
  env: process.env,
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  stopSignal: new Promise((resolve) => {
    let first = Number.NaN
    const stop = (signal = '') => {
      // A second signal means at once: what was acknowledged is in the log, and is replayed.
      if (performance.now() - first > ONE_SIGNAL_MS) kill()
      if (Number.isNaN(first)) first = performance.now()
      stopping = true
      resolve(signal)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  }),
  kill,
})
// Compilers of V8 that wait for room in the heap wait for this thread, and exiting waits for them: neither would end (nodejs/node#54918).
if (stopping) collect()
// Output to a pipe is written asynchronously and would be cut by exiting before it has drained.
process.stdout.write('', () => process.exit(code))
