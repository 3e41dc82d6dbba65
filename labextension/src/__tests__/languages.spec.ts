// The panel in another language: what JupyterLab's own translation manager gives, and the language that
// the server is asked for.

import { ServerConnection } from '@jupyterlab/services';
import { TranslationManager } from '@jupyterlab/translation';
import { afterEach, describe, expect, it } from 'vitest';

import { KernelStarts } from '../kernels/kernelStarts';
import { language, loadTranslation, trans } from '../language/translation';
import { TPUClient } from '../rest/client';

const PACK = {
  jupyter_tpu: {
    '': {
      domain: 'jupyter_tpu',
      language: 'zh-CN',
      plural_forms: 'nplurals=1; plural=0;',
      pluralForms: 'nplurals=1; plural=0;'
    },
    'Delete %1?': ['删除 %1？'],
    '%1 host': ['%1 台主机', '%1 台主机']
  }
};

async function use(code: string, pack: object): Promise<void> {
  const manager = new TranslationManager('', undefined, undefined, {
    fetch: async () => ({ data: pack, message: '' })
  } as never);
  await manager.fetch(code);
  loadTranslation(manager);
}

afterEach(() => use('en', {}));

describe('the panel in Chinese', () => {
  it('translates its own strings, also with a number', async () => {
    await use('zh_CN', PACK);
    expect(language).toBe('zh-CN');
    expect(trans.__('Delete %1?', 'my-tpu')).toBe('删除 my-tpu？');
    expect(trans._n('%1 host', '%1 hosts', 4)).toBe('4 台主机');
    expect(trans.__('Not in the catalogue')).toBe('Not in the catalogue');
  });

  it('asks the server for its language, and JupyterLab does for kernels', async () => {
    const asked: [string, string | null][] = [];
    const fetch = async (input: RequestInfo) => {
      const { headers, url } = input as Request;
      asked.push([new URL(url).pathname, headers.get('Accept-Language')]);
      return new Response('[]');
    };
    const settings = ServerConnection.makeSettings({
      baseUrl: 'http://localhost/',
      fetch: new KernelStarts().holding(fetch as never)
    });
    const ask = async () => {
      await new TPUClient(settings).operations.list();
      for (const path of ['api/kernels/k/restart', 'api/contents']) {
        const url = `http://localhost/${path}`;
        await ServerConnection.makeRequest(url, {}, settings);
      }
      return asked.splice(0).map(([, code]) => code);
    };
    // The browser's own language must not be taken for JupyterLab's.
    expect(await ask()).toEqual(['en', 'en', null]);
    await use('zh_CN', PACK);
    expect(await ask()).toEqual(['zh-CN', 'zh-CN', null]);
  });

  it('keeps names that are written from right to left in their place', async () => {
    await use('zh_CN', PACK);
    expect(trans.__('Delete %1?', 'שלום')).toBe('删除 \u2068שלום\u2069？');
  });

  it('is English without a catalogue', async () => {
    await use('fr_FR', {});
    expect(trans.__('Delete %1?', 'my-tpu')).toBe('Delete my-tpu?');
  });
});
