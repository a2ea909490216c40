/** What `remote_url` and the keys beside it name. Pure. */
import { fileURLToPath } from 'node:url'
import { SvcError } from 'svcdb/lib/errors'
import { withoutPasswords } from 'svcdb/lib/text'
import type { ColdArchiveConfig } from './config.ts'

type Remote = { kind: 'folder'; path: string } | ({ kind: 'bucket' } & Bucket)

export interface Bucket {
  bucket: string
  /** Without slashes at its ends; may be empty. */
  prefix: string
  /** URL of the bucket, without a slash at its end. */
  url: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string | undefined
}

const SCHEME = /^([a-z][a-z0-9+.-]*):\/\//i
/** Taken for a relative path, to which the config's folder is added. */
const MISTYPED_SCHEME = /(?:^|\/)(?:s3|file):/i
const DEFAULT_REGION = 'us-east-1'

/** @param env environment variables. @returns undefined when nothing is configured. @throws CONFIG_ERROR */
export function parseRemote(config: ColdArchiveConfig, env: Readonly<Record<string, string | undefined>>): Remote | undefined {
  const { remote_url: url } = config
  if (url === '') return undefined
  const scheme = SCHEME.exec(url)?.[1].toLowerCase()
  if (scheme === undefined && MISTYPED_SCHEME.test(url))
    throw refused('remote_url', url, 'there is no "//" behind its scheme; give a path, file:///path or s3://bucket/prefix')
  if (scheme === undefined) return { kind: 'folder', path: url }
  if (scheme === 'file') return { kind: 'folder', path: folderOf(url) }
  if (scheme === 's3') return { kind: 'bucket', ...bucketOf(url, config, env) }
  throw refused('remote_url', url, 'its scheme is not known; give a path, file:///path or s3://bucket/prefix')
}

function folderOf(url: string): string {
  try {
    return fileURLToPath(url)
  } catch (error) {
    throw refused('remote_url', url, `${(error as Error).message}; give file:///path, with three slashes`)
  }
}

function bucketOf(url: string, config: ColdArchiveConfig, env: Readonly<Record<string, string | undefined>>): Bucket {
  const [bucket, ...rest] = url.slice('s3://'.length).split('/')
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/i.test(bucket))
    throw refused('remote_url', url, 'a bucket has 3 to 63 letters, digits, "." and "-"; give s3://bucket/prefix')
  const prefix = rest.filter((part) => part !== '').join('/')
  const region = config.region || env.AWS_REGION || env.AWS_DEFAULT_REGION || DEFAULT_REGION
  const endpoint = config.endpoint || env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || ''
  if (endpoint !== '' && (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol)))
    throw refused('endpoint', endpoint, 'it is not an http or https URL; give one such as https://minio.example:9000')
  const { username, password } = endpoint === '' ? { username: '', password: '' } : new URL(endpoint)
  if (username !== '' || password !== '') throw refused('endpoint', endpoint, 'it has a user or a password; set access_key_id and secret_access_key')
  const accessKeyId = config.access_key_id?.reveal() ?? env.AWS_ACCESS_KEY_ID
  const secretAccessKey = config.secret_access_key?.reveal() ?? env.AWS_SECRET_ACCESS_KEY
  if (!accessKeyId || !secretAccessKey) {
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot use [cold_archive] remote_url = "${url}": there are no credentials; set access_key_id and secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
    )
  }
  return {
    bucket,
    prefix,
    url: endpoint === '' ? `https://${bucket}.s3.${region}.amazonaws.com` : `${endpoint.replace(/\/+$/, '')}/${bucket}`,
    region,
    accessKeyId,
    secretAccessKey,
    sessionToken: config.session_token?.reveal() ?? (config.access_key_id === undefined ? env.AWS_SESSION_TOKEN || undefined : undefined),
  }
}

function refused(key: string, value: string, cause: string): SvcError {
  return new SvcError('CONFIG_ERROR', `cannot use [cold_archive] ${key} = "${withoutPasswords(value)}": ${cause}`)
}
