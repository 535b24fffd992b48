// The migrations of database servers are those of test/corpus/sql, with which sqlservers.test.ts fills real servers: an edit of a released
// one would leave the tables of earlier installations as they are.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { mysql } from '../../../../../src/storage/server/mysql'
import { postgresql } from '../../../../../src/storage/server/postgres'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

for (const { name, migrations } of [postgresql, mysql])
  test(`${name}: each migration has a file of its own and is as it was released`, () => {
    const files = readdirSync(join(root, 'src/storage/server/migrations', name)).sort()
    assert.equal(files.length, migrations.length)
    for (const [k, file] of files.entries()) {
      const migration = file.replace(/\.ts$/, '')
      assert.ok(migration.startsWith(`000${k + 1}-`), file)
      const released = readFileSync(join(root, 'test/corpus/sql', name, `${migration}.sql`), 'utf8')
      const statements = migrations[k]!.map(sql => `${sql};\n`).join('\n')
      assert.equal(statements, released, `${file} was edited: write the change as a new migration`)
    }
  })
