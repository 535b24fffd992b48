// The settings, generated from the gateway's schema: found by name, edited together, saved together. A setting that
// could not be saved keeps its edit and shows the error; settings that take effect at the next start are listed after
// saving.
import { useState } from 'preact/hooks'
import { useAction } from '../lib/action'
import { say, sayError } from '../lib/action-message'
import { call } from '../lib/api'
import { afterSaving, fits, typedValue } from '../lib/edits'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import { may } from '../lib/session'
import type { OptionCategory, OptionField } from '../lib/types'
import { forget, unsaved } from '../lib/unsaved'
import { Field } from '../ui/field'
import { Button, Card, Check, Empty, Loaded, Search } from '../ui/parts'
import { WriteNote } from '../ui/writenote'
import { Backup } from './backup'
import { PageSettings } from './page-settings'
import { Versions } from './versions'
import { Wifi } from './wifi'

interface Schema {
  schema: { categories: readonly OptionCategory[] }
}

interface Saved {
  changed: readonly { key: string; restart?: boolean }[]
  failed: readonly { key?: string; error: string }[]
  warnings?: readonly string[]
}

type Texts = Readonly<Record<string, string>>

function Category({
  category,
  fields,
  words,
  edits,
  errors,
  onEdit,
}: {
  category: OptionCategory
  fields: readonly OptionField[]
  words: readonly string[]
  edits: Texts
  errors: Texts
  onEdit(key: string, text: string | undefined): void
}) {
  const changed = fields.filter(({ key }) => edits[key] !== undefined).length
  return (
    <details class="card category" open={words.length > 0 || changed > 0}>
      <summary>
        <h2>{category.title}</h2>
        <span class="quiet small mono break">{category.id}</span>
        <span class="quiet small end">
          {fields.length} {fields.length === 1 ? 'setting' : 'settings'}
          {changed > 0 && `, ${changed} changed`}
        </span>
      </summary>
      <div class="options">
        {fields.map(field => (
          <Field
            key={field.key}
            field={field}
            edit={edits[field.key]}
            error={errors[field.key]}
            disabled={!field.writable || !may('admin')}
            words={words}
            onEdit={text => onEdit(field.key, text)}
          />
        ))}
      </div>
    </details>
  )
}

function Options({ categories, reload }: { categories: readonly OptionCategory[]; reload(): void }) {
  const [search, setSearch] = useState('')
  const [readOnly, setReadOnly] = useState(false)
  const { edits, errors } = useStore(unsaved)
  const [restarts, setRestarts] = useState<readonly string[]>([])
  const [busy, setBusy] = useState(false)
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const shown = categories
    .map(category => ({
      category,
      fields: category.fields.filter(
        // a search also shows settings that cannot be changed here
        field =>
          edits[field.key] !== undefined || ((words.length > 0 || readOnly || field.writable) && fits(field, words)),
      ),
    }))
    .filter(({ fields }) => fields.length > 0)
  const all = new Map(categories.flatMap(category => category.fields.map(field => [field.key, field] as const)))
  const count = Object.keys(edits).length

  function edit(key: string, text: string | undefined): void {
    const { [key]: _old, ...kept } = edits
    const { [key]: _error, ...others } = errors
    const typed = text === undefined ? undefined : typedValue(all.get(key)!, text)
    unsaved.set({
      edits: text === undefined ? kept : { ...kept, [key]: text },
      errors: typed && 'error' in typed ? { ...others, [key]: typed.error } : others,
    })
  }

  async function save(): Promise<void> {
    const updates = Object.entries(edits).flatMap(([key, text]) => {
      const field = all.get(key)!
      const typed = typedValue(field, text)
      return 'error' in typed ? [] : [{ key, value: typed.value, value_type: field.type }]
    })
    setBusy(true)
    try {
      const { changed, failed, warnings = [] } = await send(updates)
      const { others, ...left } = afterSaving(edits, changed, failed)
      unsaved.set(left)
      setRestarts(changed.filter(({ restart }) => restart).map(({ key }) => key))
      const saved = `${changed.length} ${changed.length === 1 ? 'setting' : 'settings'} saved`
      const refused = failed.length > 0 ? [`${saved}, ${failed.length} refused`, ...others] : [saved]
      say([...refused, ...warnings].join('; '), failed.length + warnings.length > 0)
      reload()
    } catch (thrown) {
      sayError(thrown, 'Nothing was saved')
    }
    setBusy(false)
  }

  return (
    <>
      <Card>
        <div class="form">
          <div>
            <Search id="settings-search" label="Find a setting" text={search} onText={setSearch} />
          </div>
          <Check id="settings-all" label="Show read-only settings" on={readOnly} onChange={setReadOnly} />
        </div>
      </Card>
      {restarts.length > 0 && (
        <p class="card notices" role="status">
          Saved. These settings take effect after a restart: {restarts.join(', ')}
        </p>
      )}
      {shown.length === 0 && <Empty>No settings match</Empty>}
      {shown.map(({ category, fields }) => (
        <Category
          key={category.id}
          category={category}
          fields={fields}
          words={words}
          edits={edits}
          errors={errors}
          onEdit={edit}
        />
      ))}
      {count > 0 && (
        <section class="savebar" aria-label="Unsaved changes">
          <span>
            {count} unsaved {count === 1 ? 'change' : 'changes'}
          </span>
          <Button onClick={forget}>Discard</Button>
          <button
            type="button"
            class="primary"
            disabled={busy || Object.keys(errors).some(key => key in edits)}
            onClick={() => void save()}
          >
            {busy ? 'Saving …' : 'Save'}
          </button>
        </section>
      )}
    </>
  )
}

/** Refused updates have status 200 and ok false, which `call` treats as a failure. */
async function send(updates: readonly object[]): Promise<Saved> {
  try {
    return await call<Saved>('PUT', '/api/options', { body: { updates } })
  } catch (thrown) {
    const body = (thrown as { body?: Partial<Saved> }).body
    if (body && Array.isArray(body.failed) && Array.isArray(body.changed)) return body as Saved
    throw thrown
  }
}

/** For a file that was edited by hand. */
function Reload({ reload }: { reload(): void }) {
  const { busy, act } = useAction()
  const again = async (): Promise<string> => {
    await call('POST', '/api/reload', { body: {} })
    reload()
    return 'Config.json reloaded'
  }
  return (
    <p class="row wrap quiet small">
      Was Config.json changed on the gateway?
      <Button disabled={busy || !may('admin')} onClick={() => void act('Config.json was not reloaded', again)}>
        Reload Config.json
      </Button>
    </p>
  )
}

export function Settings() {
  const found = useResource<Schema>('/api/options/schema')
  return (
    <div class="stack">
      <WriteNote needs="admin" what="changing settings" />
      <PageSettings />
      <Wifi />
      <Versions />
      <Backup />
      <Loaded from={found} what="settings">
        {({ schema }) => <Options categories={schema.categories} reload={found.reload} />}
      </Loaded>
      <Reload reload={found.reload} />
    </div>
  )
}
