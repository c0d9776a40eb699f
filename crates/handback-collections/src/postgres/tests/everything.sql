-- One column for each type, and rows in which each has its extremes.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'Über');
CREATE DOMAIN grade AS int CHECK (VALUE BETWEEN 0 AND 10);
CREATE DOMAIN word AS text COLLATE "C";
CREATE TYPE pair AS (x int, y text);
CREATE TABLE t (
    id int PRIMARY KEY, bool bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8,
    num numeric, num2 numeric(12,2), txt text, vc varchar(20), ch char(6), nm name, qc "char",
    bin bytea, d date, ts timestamp, tz timestamptz, tm time, tmz timetz, iv interval,
    u uuid, ip inet, net cidr, mac macaddr, o oid, money money, bits bit(3), vb varbit,
    mood mood, grade grade, word word, lsn pg_lsn, tsv tsvector,
    js json, jb jsonb, arr int[], tarr text[], comp pair, rng int4range, pt point, x xml, rc regclass);
INSERT INTO t (id) VALUES (0);
INSERT INTO t VALUES (1, true, 32767, 2147483647, 9223372036854775807, 3.4e38, 1.7e308,
    '123456789012345678901234567890.123456789', 1234567890.12, E'q"\\u\n\u0001é€😀', 'v', 'ab', 'n', 'x',
    '\x00ff', 'infinity', 'infinity', 'infinity', '24:00', '23:59:59.999999-15:59', '178000000 years',
    'ffffffff-ffff-ffff-ffff-ffffffffffff', '255.255.255.255', '10.0.0.0/8', 'ff:ff:ff:ff:ff:ff',
    4294967295, '92233720368547758.07', B'111', B'1', 'happy', 10, 'Z', 'FFFFFFFF/FFFFFFFF', 'a b:2',
    E'{"a" : 1,\n "a":2}', '{"b":[1,null,"x"]}', '{1,NULL,3}', '{"a,b",null}', (1,'y'), '[1,5)', '(1,2)',
    '<a/>', 'pg_class');
INSERT INTO t VALUES (2, false, -32768, -2147483648, -9223372036854775808, -3.4e38, 5e-324,
    '-0.000000000000000000001', -0.01, '', '', '', '', '', '', '-infinity', '-infinity', '-infinity',
    '00:00', '00:00+15:59', '-178000000 years', '00000000-0000-0000-0000-000000000000', '::1/64', '::/0',
    '00:00:00:00:00:00', 0, '-92233720368547758.08', B'000', B'', 'sad', 0, '', '0/0', '', 'null', 'null',
    '{}', '{}', NULL, 'empty', '(0,0)', '', 'pg_type');
INSERT INTO t VALUES (3, true, 0, 0, 0, 'NaN', 'NaN', 'NaN', 'NaN', 'a', 'a ', 'a', 'a', 'é', 'é',
    '4713-01-01 BC', '0044-03-15 12:00:00.5 BC', '0044-03-15 BC', '12:34:56.789', '12:00+00',
    '1 mon -2 days 03:00:00.000001', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '192.168.0.1/24', '192.168.0.0/24',
    '08:00:2b:01:02:03', 7, 0, B'010', B'010101', 'ok', 5, 'a', '1/2', 'x', '[]', '[]', '{{1,2},{3,4}}',
    '{"é"}', (NULL,NULL), '(,)', '(1,1)', 'x', 'pg_proc');
INSERT INTO t VALUES (4, false, 1, 1, 9007199254740993, 'Infinity', 'Infinity', 'Infinity', 0.1, 'A', 'A', 'A', 'A', 'A',
    'A', '9999-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00', '00:00:00.000001',
    '12:00+01', '30 days', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '192.168.0.1', '192.168.0.1/32',
    '08:00:2b:01:02:04', 8, 0.01, B'011', B'0101010', 'Über', 6, 'A', '1/3', 'y', '1', '1.50', '{1}', '{x}', (1,'z'),
    '[2,3)', '(2,2)', 'y', 'pg_proc');
INSERT INTO t VALUES (5, false, 2, 2, -9007199254740993, '-Infinity', '-Infinity', '-Infinity', 12.30, 'b', 'b', 'b', 'b', 'b',
    'b', '2024-02-29', '2024-02-29 01:02:03', '2024-02-29 01:02:03.123456+05:30', '01:02:03',
    '12:00-01', '1 mon', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '10.1.2.3', '10.1.2.3', '08:00:2b:01:02:05',
    9, 1.5, B'100', B'11', 'ok', 7, 'b', '1/4', 'z', '1', '1', '{2}', '{y}', (2,'z'), '[2,4)', '(2,3)', 'z', 'pg_proc');
INSERT INTO t VALUES (6, true, 3, 3, 3, 0.1, 0.1, 0.1, 0.1, 'a', 'a', 'a', 'a', 'c', 'c', '2024-02-29', '2024-02-29 01:02:03',
    '2024-02-29 01:02:03+00', '01:02:03', '12:00-01', '1 mon', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14', '10.1.2.3',
    '10.1.2.3', '08:00:2b:01:02:05', 9, 1.5, B'100', B'11', 'ok', 7, 'b', '1/4', 'z', '1', '1', '{2}', '{y}', (2,'z'),
    '[2,4)', '(2,3)', 'z', 'pg_proc');
