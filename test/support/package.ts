/** The package as users have it: packed by npm from a copy of the repository, and installed by npm in a folder of its own. */
import { execFile } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, linkSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { filesBelow, ROOT } from './tree.ts'

const run = promisify(execFile)

/** What a user's shell has, and not what the test runner adds to it; with the Node.js that runs this, and the repository's compiler. */
export const ENV: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(NODE_OPTIONS|_?TAP.*|npm_(lifecycle|package)_.*)$/.test(name))),
  PATH: [dirname(process.execPath), join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter),
}

/** @throws Error with what npm says. */
export async function npm(cwd: string, ...args: string[]): Promise<string> {
  const program = process.env.npm_execpath
  const [command, ...before] = program?.endsWith('.js') ? [process.execPath, program] : ['npm']
  try {
    return (await run(command, [...before, ...args], { cwd, env: ENV })).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`npm ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error })
  }
}

/** Packs a copy of the repository, for packing changes its package.json while it lasts. @returns the tarball. */
export async function packRepository(folder: string): Promise<string> {
  const copy = join(folder, 'repository')
  for (const file of [...filesBelow(), '.gitignore']) cpSync(join(ROOT, file), join(copy, file))
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  return pack(copy, folder)
}

/** @returns the tarball. */
export async function pack(source: string, destination: string): Promise<string> {
  const output = await npm(source, 'pack', '--silent', '--pack-destination', destination)
  return join(destination, output.trim().split('\n').at(-1) as string)
}

/**
 * `npm install` of tarballs. From the registry with SVC_INSTALL=registry; else offline: what the package depends on is laid out before, as npm has laid it out
 * in the repository, and npm, which finds it there, adds the tarballs.
 */
export async function install(site: string, cache: string, ...tarballs: string[]): Promise<void> {
  // Without one, npm installs into the nearest folder above that has one.
  const manifest = join(site, 'package.json')
  if (!existsSync(manifest)) writeFileSync(manifest, '{ "private": true }\n')
  const registry = process.env.SVC_INSTALL === 'registry'
  if (!registry) layOut(site)
  await npm(site, 'install', '--no-audit', '--no-fund', ...(registry ? [] : ['--offline', '--cache', cache]), ...tarballs)
}

interface LockEntry {
  dev?: true
  bin?: Record<string, string>
}

/** The repository's installed packages, but those for its development: real folders, with hard links to the files where the file system has them. */
function layOut(site: string): void {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: Record<string, LockEntry> }
  for (const [path, { dev, bin = {} }] of Object.entries(packages)) {
    if (path === '' || path === 'node_modules/node' || dev || !existsSync(join(ROOT, path)) || existsSync(join(site, path))) continue
    copyFolder(join(ROOT, path), join(site, path))
    const at = path.lastIndexOf('node_modules/') + 'node_modules/'.length
    // npm takes a package whose commands are missing for one that is not installed.
    mkdirSync(join(site, path.slice(0, at), '.bin'), { recursive: true })
    for (const [name, file] of Object.entries(bin)) symlinkSync(join('..', path.slice(at), file), join(site, path.slice(0, at), '.bin', name))
  }
}

/** Without the packages within. */
export function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory() && entry.name !== 'node_modules') copyFolder(source, target)
    if (entry.isFile()) linkOrCopy(source, target)
  }
}

function linkOrCopy(source: string, target: string): void {
  try {
    linkSync(source, target)
  } catch {
    copyFileSync(source, target) // another file system
  }
}
