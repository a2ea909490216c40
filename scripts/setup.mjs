// Makes a fresh clone runnable: installs the packages when they are missing or out of date, and checks that the pinned runtime and
// the native parts are there. Runs before `npm start` and `npm test`, on whatever Node the machine has (18 or later), so it uses
// nothing newer. When there is nothing to do it says nothing and takes a few milliseconds.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { restore } from './manifest.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const modules = join(root, 'node_modules')
const lock = join(root, 'package-lock.json')
const installed = join(modules, '.package-lock.json')
const stamp = join(modules, '.svc-setup')
const runtime = join(modules, '.bin', process.platform === 'win32' ? 'node.cmd' : 'node')
const RUNTIME_MAJOR = 24
/** Packages with a native part: importing them fails where the prebuilt binary for this platform is missing. */
const NATIVE = ['lmdb', '@duckdb/node-api']

if (restore()) say("an interrupted npm pack had left the published package.json; the repository's is back")

/** Then they are another checkout's, which looks after them. */
const linked = existsSync(modules) && lstatSync(modules).isSymbolicLink()
const fingerprint = createHash('sha256').update(readFileSync(lock)).update(`${process.platform}-${process.arch}`).digest('hex')

if (!linked && !(existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint && existsSync(runtime))) {
  if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(lock).mtimeMs) install()
  ensureRuntime()
  verify()
  writeFileSync(stamp, fingerprint)
}

function install() {
  say('installing packages')
  // Exactly what the lock file names, by its hashes. Under `npm test` the npm that runs this script, else the one on the path.
  const npm = process.env.npm_execpath
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
  const options = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] }
  const result = npm?.endsWith('.js')
    ? spawnSync(process.execPath, [npm, ...args], options)
    : spawnSync('npm', args, { ...options, shell: process.platform === 'win32' })
  if (result.error !== undefined || result.status !== 0)
    fail(`npm ci failed${result.error === undefined ? '' : `: ${result.error.message}`}; check the network and the registry, then run it by hand`)
}

/**
 * The `node` package fetches its binary in an install script; where scripts are not allowed, the same script is run here. There is none for some
 * platforms, such as musl: the package is optional, and the Node that runs this script takes its place if it is new enough.
 */
function ensureRuntime() {
  if (existsSync(runtime) && versionOf(runtime) !== undefined) return
  const home = join(modules, 'node')
  if (existsSync(home)) {
    say('fetching the runtime')
    const result = spawnSync(process.execPath, ['installArchSpecificPackage.js'], { cwd: home, stdio: ['ignore', 'ignore', 'inherit'] })
    if (result.status === 0 && versionOf(runtime) !== undefined) return
  }
  if (Number(process.versions.node.split('.')[0]) !== RUNTIME_MAJOR || process.platform === 'win32') {
    fail(
      `cannot find the runtime ${runtime}: the install script of the package "node" did not run, or has none for ${process.platform}-${process.arch}; allow install scripts and remove node_modules, or install Node ${RUNTIME_MAJOR}, then try again`,
    )
  }
  say(`using ${process.execPath} as the runtime`)
  rmSync(runtime, { force: true })
  mkdirSync(dirname(runtime), { recursive: true })
  symlinkSync(process.execPath, runtime)
}

function verify() {
  const version = versionOf(runtime)
  if (Number(version?.split('.')[0]) !== RUNTIME_MAJOR)
    fail(`the runtime ${runtime} is version ${version}, and ${RUNTIME_MAJOR} is needed; remove node_modules and try again`)
  const script = `for (const name of ${JSON.stringify(NATIVE)}) await import(name)`
  const result = spawnSync(runtime, ['--input-type=module', '-e', script], { cwd: root, encoding: 'utf8', shell: process.platform === 'win32' })
  if (result.status !== 0)
    fail(
      `the native packages do not load on ${process.platform}-${process.arch}: ${
        result.stderr
          .trim()
          .split('\n')
          .find((line) => line.includes('Error')) ?? result.stderr
      }`,
    )
}

function versionOf(file) {
  const result = spawnSync(file, ['-p', 'process.versions.node'], { encoding: 'utf8', shell: process.platform === 'win32' })
  return result.status === 0 ? result.stdout.trim() : undefined
}

function say(text) {
  process.stdout.write(`setup: ${text}\n`)
}

function fail(text) {
  process.stderr.write(`setup: ${text}\n`)
  process.exit(1)
}
