/** `svc generate-cert`: a certificate to try TLS with, and for machines that are told to trust it. */
import { lstat, mkdir, open, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Command, CommandCall } from 'svcdb'
import { selfSigned } from './certificate.ts'
import { checkCommonName, subjectNames } from './certificate-names.ts'

const CERTIFICATE = 'cert.pem'
const KEY = 'key.pem'
const DAY_MS = 86_400_000
const DEFAULT_DAYS = 365
const MAX_DAYS = 3650
/** Clocks of clients may be behind by this much. */
const SKEW_MS = 300_000

export const generateCert: Command = {
  name: 'generate-cert',
  usage: '--common-name NAME',
  summary: `Writes a self-signed certificate for [tls]: ${CERTIFICATE} and ${KEY}`,
  flags: {
    'common-name': { description: 'the name that clients reach the server by' },
    out: { description: 'directory of the two files; default the current one' },
    days: { description: `how long it is valid; default ${DEFAULT_DAYS}` },
    san: { description: 'more host names and addresses, with commas; localhost, 127.0.0.1 and ::1 are there already' },
  },
  run,
}

async function run({ flags, args, out }: CommandCall): Promise<number> {
  if (args.length > 0) throw new Error(`cannot use argument "${args[0]}": generate-cert takes flags only`)
  const given = flags['common-name']
  if (given === undefined) throw new Error('cannot make a certificate: it needs a name; give --common-name NAME')
  const commonName = checkCommonName(given)
  const names = subjectNames(commonName, flags.san)
  const days = daysOf(flags.days)
  const folder = resolve(flags.out ?? '.')
  const files = { certificate: join(folder, CERTIFICATE), key: join(folder, KEY) }
  await mkdir(folder, { recursive: true })
  for (const file of Object.values(files)) await refuseExisting(file)
  const now = Date.now()
  const notAfter = new Date(now + days * DAY_MS)
  const { certificate, key } = await selfSigned({ commonName, names, notBefore: new Date(now - SKEW_MS), notAfter })
  await create(files.key, key, 0o600)
  try {
    await create(files.certificate, certificate, 0o644)
  } catch (error) {
    await rm(files.key, { force: true }) // this call has made it
    throw error
  }
  out(`# for ${names.map(({ value }) => value).join(', ')}; valid until ${notAfter.toISOString()}\n`)
  out(`[tls]\ncert = ${JSON.stringify(files.certificate)}\nkey = ${JSON.stringify(files.key)}\n`)
  return 0
}

function daysOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_DAYS
  const days = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (days < 1 || days > MAX_DAYS) throw new Error(`cannot use --days "${text.slice(0, 32)}": it is a whole number from 1 to ${MAX_DAYS}`)
  return days
}

async function refuseExisting(file: string): Promise<void> {
  try {
    await lstat(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw cannotWrite(file, error)
  }
  throw exists(file)
}

/** A file that is there is never opened, nor followed where it is a link. */
async function create(file: string, text: string, mode: number): Promise<void> {
  let made: Awaited<ReturnType<typeof open>>
  try {
    made = await open(file, 'wx', mode)
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? exists(file) : cannotWrite(file, error)
  }
  try {
    await made.writeFile(text)
    await made.sync()
  } catch (error) {
    await rm(file, { force: true })
    throw cannotWrite(file, error)
  } finally {
    await made.close()
  }
}

function exists(file: string): Error {
  return new Error(`cannot write "${file}": it exists; remove it, or choose another directory with --out`)
}

function cannotWrite(file: string, cause: unknown): Error {
  return new Error(`cannot write "${file}": ${(cause as Error).message}`, { cause })
}
