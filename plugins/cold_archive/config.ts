import { FILE_PATH, Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  remote_url: Type.String({
    ...FILE_PATH,
    default: '',
    description: 'Where old data goes: a folder (a path or file:///path) or a bucket (s3://bucket/prefix); empty = nothing is archived',
  }),
  take_over_from: Type.String({
    default: '',
    maxLength: 100,
    description:
      'Id of the database that this place belongs to, or token of the copy of this one that has written there, if that is gone for good and this one goes on with its archive; empty = none',
  }),
  cold_after_secs: Type.Integer({
    default: 2_592_000,
    minimum: 0,
    maximum: 3_153_600_000,
    description: 'Age from which on data is archived, by whole UTC days, measured from the newest time held or the server clock, whichever is earlier',
  }),
  interval_secs: Type.Integer({ default: 3600, minimum: 1, maximum: 2_000_000, description: 'Time between the end of a run and the next one' }),
  max_objects_per_run: Type.Integer({ default: 8, minimum: 1, maximum: 100_000, description: 'Objects a run writes at most, one a table and day' }),
  endpoint: Type.String({
    default: '',
    description: 'Base URL of an S3-compatible store, which is then addressed by path; empty = AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon S3',
  }),
  region: Type.String({ default: '', description: 'Region of the bucket; empty = AWS_REGION, AWS_DEFAULT_REGION, or us-east-1' }),
  access_key_id: Type.Optional(Secret.schema({ description: 'Unset = AWS_ACCESS_KEY_ID', minLength: 1 })),
  secret_access_key: Type.Optional(Secret.schema({ description: 'Unset = AWS_SECRET_ACCESS_KEY', minLength: 1 })),
  session_token: Type.Optional(Secret.schema({ description: 'Of temporary credentials; unset = AWS_SESSION_TOKEN', minLength: 1 })),
  request_timeout_secs: Type.Integer({
    default: 600,
    minimum: 1,
    maximum: 86_400,
    description: 'Time limit of one request to the bucket, the transfer of an object included',
  }),
})

export type ColdArchiveConfig = Static<typeof configSchema>
