/** `svc generate-key`: prints a key once, and keeps it in the store or shows what to put into the config. */
import { ALL_NAMESPACES, type Command, type CommandCall, type OpenState } from 'svcdb'
import { type ApiKeysConfig, MAX_KEYS } from './config.ts'
import { Envelope, masterKeyOf } from './envelope.ts'
import { RUNTIME, STORED } from './kept-keys.ts'
import { isHomeless, nameProblem, namespaceProblems } from './key.ts'
import { decodeObject } from './key-object.ts'
import { checkRecord, type KeyRecord } from './key-record.ts'
import { KeyStore } from './key-store.ts'
import { newKey } from './new-key.ts'
import { storeLocation } from './store-location.ts'

const DAY_SECS = 86_400
const MAX_DAYS = 36_500
const DEFAULT_PREFIX = 'svc_'

export const generateKey: Command = {
  name: 'generate-key',
  summary: 'Makes an API key and prints it, once',
  flags: {
    name: { description: 'who the key stands for; needed' },
    tenant: { description: 'its tenant, which is a namespace too' },
    roles: { description: 'its roles, with commas between them' },
    namespaces: { description: 'the namespaces that it may name, with commas; none, or * = all, which under server.multi_tenancy only an admin may have' },
    admin: { description: 'it may administer the server', boolean: true },
    'expires-days': { description: 'it ends after so many days' },
  },
  async run(call) {
    const { section, dataDir, multiTenancy, openState } = await call.config()
    const config = section as ApiKeysConfig | undefined
    const wanted = wantedOf(call)
    const shown = JSON.stringify(wanted.name)
    if (multiTenancy && isHomeless({ admin: wanted.admin, namespaces: [...wanted.namespaces, ...(wanted.tenant === undefined ? [] : [wanted.tenant])] }))
      throw new Error(`cannot make key ${shown}: server.multi_tenancy needs namespaces; give --namespaces or --tenant, or --admin for all`)
    if (config?.auth.api_keys.some(({ name }) => name.trim() === wanted.name))
      throw new Error(`cannot make key ${shown}: auth.api_keys has one of this name; choose another`)
    const place = config === undefined ? undefined : placeOf(config, dataDir, call)
    const kept = place === undefined ? [] : await recordsOf(place, openState)
    const { folder } = place?.store ?? {}
    if (kept.length >= MAX_KEYS) throw new Error(`cannot make key ${shown}: there are ${MAX_KEYS}, which is the limit; remove some`)
    if (kept.some(({ name }) => name === wanted.name)) throw new Error(`cannot make key ${shown}: there is one of this name; choose another`)
    const { text, record } = await newKey(wanted, config?.auth.api_key_prefix ?? DEFAULT_PREFIX, Date.now())
    await place?.store.write(record)
    call.out(`${text}\n`)
    if (place !== undefined) call.err(`key ${shown} is kept in "${folder}"; a server that runs takes it up by itself\n`)
    else {
      const hint = config === undefined ? '# Put this into the config, and "api_keys" into its plugins:\n' : '# Put this into the config and start again:\n'
      call.err(`${hint}${tomlOf(record)}`)
    }
    return 0
  },
}

function wantedOf({ flags, args }: CommandCall) {
  if (args.length > 0) throw new Error(`cannot use argument "${args[0]}": generate-key takes flags only`)
  const name = flags.name?.trim()
  if (name === undefined) throw new Error('cannot make a key: it needs a name; give --name')
  const roles = listOf(flags.roles)
  const { tenant } = flags
  const admin = flags.admin === 'true'
  const given = listOf(flags.namespaces)
  const namespaces = admin && given.length === 0 && tenant === undefined ? [ALL_NAMESPACES] : given
  const problem =
    nameProblem(name) ??
    namespaceProblems({ namespaces, ...(tenant === undefined ? {} : { tenant }) })[0] ??
    (roles.some((role) => role.length > 128) ? 'cannot use --roles: a role has at most 128 characters' : undefined)
  if (problem !== undefined) throw new Error(problem)
  const days = flags['expires-days']
  if (days !== undefined && !(/^\d{1,5}$/.test(days) && Number(days) >= 1 && Number(days) <= MAX_DAYS))
    throw new Error(`cannot use --expires-days ${JSON.stringify(days.slice(0, 32))}: it is a number of days, 1 to ${MAX_DAYS}`)
  return {
    name,
    namespaces,
    roles,
    admin,
    ...(tenant === undefined ? {} : { tenant }),
    ...(days === undefined ? {} : { expiresAt: Math.floor(Date.now() / 1000) + Number(days) * DAY_SECS }),
  }
}

function listOf(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

interface Place {
  /** What takes the new key: the place of all objects, or the inbox of the state store. */
  store: KeyStore
  isInbox: boolean
  envelope: Envelope | undefined
}

/** @throws Error for an encryption key that cannot be had. */
export function placeOf(config: ApiKeysConfig, dataDir: string | undefined, { env, err }: Pick<CommandCall, 'env' | 'err'>): Place | undefined {
  const location = storeLocation(config, dataDir)
  if (location !== undefined && 'memory' in location) err('storage.object_store_url is memory://, where no key can be put from here\n')
  if (location === undefined || 'memory' in location) return undefined
  const variable = config.auth.encryption_key_env
  const envelope = variable === undefined ? undefined : new Envelope(masterKeyOf(variable, env))
  const isInbox = 'inbox' in location
  const root = isInbox ? location.inbox : location.root
  return { store: new KeyStore({ root, envelope, monotonic: () => performance.now() }), isInbox, envelope }
}

/** Every key there is beside those of the config. */
export async function recordsOf({ store, isInbox, envelope }: Place, openState: () => Promise<OpenState | undefined>): Promise<KeyRecord[]> {
  const records = await store.records()
  const open = isInbox ? await openState() : undefined
  try {
    for (const { key, value } of (await open?.state.list({ prefix: STORED })) ?? []) records.push(decodeObject(value, key.slice(STORED.length), envelope))
    for (const { value } of (await open?.state.list({ prefix: RUNTIME })) ?? []) records.push(checkRecord(value))
  } finally {
    await open?.close()
  }
  return records
}

/** @param record its members, as an [[auth.api_keys]]. */
function tomlOf({ name, key_hash, key_prefix, tenant_id, namespaces, roles, admin, expires_at }: KeyRecord): string {
  const lines = [
    '[[auth.api_keys]]',
    `name = ${quoted(name)}`,
    `key = ${quoted(key_hash)}`,
    `key_prefix = ${quoted(key_prefix)}`,
    ...(tenant_id === null ? [] : [`tenant = ${quoted(tenant_id)}`]),
    ...(namespaces.length === 0 ? [] : [`namespaces = [${namespaces.map(quoted).join(', ')}]`]),
    ...(roles.length === 0 ? [] : [`roles = [${roles.map(quoted).join(', ')}]`]),
    ...(admin ? ['admin = true'] : []),
    ...(expires_at === null ? [] : [`expires_at = ${expires_at}`]),
  ]
  return `${lines.join('\n')}\n`
}

/** JSON's strings are TOML's; in the config `${` would stand for a variable. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll('${', '$$${')
}
