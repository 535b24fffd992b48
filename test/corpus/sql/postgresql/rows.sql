INSERT INTO os_writers (origin, seq, packets) VALUES (7, 2, 1);

INSERT INTO os_packets_data VALUES (20513, 1, 2, '6f1d6bd0-5a3c-5b0e-9d5b-0c1b8a9f2e11', 'dev', 'ONLINE', 1772323200, 1772323201,
  1772323200000, 1, 0, ARRAY['temp', 'hum'], ARRAY['OK', 'OK'], ARRAY[294.5, 40], ARRAY['K', '%'], NULL);
